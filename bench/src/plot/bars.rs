//! Draws groups of bars as SVG, one below the other. Every group has its own scale, from zero on.

use super::{COLOURS, LEFT, RIGHT, Svg, WIDTH, escape, nice_above, number};

/// Bars that share a scale.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) bars: Vec<Bar>,
}

/// A bar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bar {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
}

const TOP: f64 = 40.0;
const BAR: f64 = 16.0;
/// For the title of a group and the room above it.
const TITLE: f64 = 34.0;
/// For the number behind a bar.
const NUMBER: f64 = 60.0;

/// The drawing, as the text of an SVG file.
pub(crate) fn draw_bars(title: &str, groups: &[Bars]) -> String {
    let height = |group: &Bars| TITLE + group.bars.len() as f64 * BAR;
    let whole = TOP + groups.iter().map(height).sum::<f64>() + 10.0;
    let mut svg = Svg::start(whole, title);
    let mut top = TOP;
    for group in groups {
        svg.text(
            LEFT,
            top + TITLE - 8.0,
            "start",
            &format!(r#"font-weight="bold">{}"#, escape(&group.title)),
        );
        let values = group.bars.iter().map(|bar| bar.value).filter(|value| value.is_finite());
        let most = nice_above(values.fold(0.0, f64::max));
        for (index, bar) in group.bars.iter().enumerate() {
            let y = top + TITLE + index as f64 * BAR;
            draw_bar(&mut svg, bar, COLOURS[index % COLOURS.len()], y, most);
        }
        top += height(group);
    }
    svg.end()
}

fn draw_bar(svg: &mut Svg, bar: &Bar, colour: &str, y: f64, most: f64) {
    let value = if bar.value.is_finite() { bar.value.max(0.0) } else { 0.0 };
    let length = value / most * (WIDTH - LEFT - RIGHT - NUMBER);
    let (below, thick) = (y + BAR - 5.0, BAR - 3.0);
    svg.text(LEFT - 6.0, below, "end", &format!(">{}", escape(bar.name)));
    svg.line(format_args!(
        r#"<rect x="{LEFT}" y="{y:.1}" width="{length:.1}" height="{thick}" fill="{colour}"/>"#
    ));
    svg.text(LEFT + length + 5.0, below, "start", &format!(">{}", number(value)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_is_well_formed_also_of_nothing() {
        let bars = vec![Bar { name: "a<b", value: 3.0 }, Bar { name: "none", value: f64::NAN }];
        let groups = [
            Bars { title: "one & two".to_owned(), bars },
            Bars { title: "empty".to_owned(), bars: Vec::new() },
        ];
        for groups in [&groups[..], &[]] {
            let svg = draw_bars("a & b", groups);
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && !svg.contains("NaN"));
            assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        }
        assert_eq!(draw_bars("", &groups).matches("<rect").count(), 1 + 2);
    }
}
