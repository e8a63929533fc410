//! Draws time series as SVG: panels of lines, one below the other, over one axis of time.
//!
//! Knows nothing of what it draws. Every panel has its own scale, from zero on.

mod bars;

use std::fmt::Write as _;

pub(crate) use bars::{Bar, Bars, draw_bars};

/// Panels share the axis of time; each has its own scale.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) title: &'static str,
    pub(crate) lines: Vec<Line>,
}

/// One line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: &'static str,
    /// Seconds and values.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A moment with a name: a vertical line through all panels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) at: f64,
    pub(crate) label: &'static str,
}

const WIDTH: f64 = 960.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 62.0;
const PANEL: f64 = 110.0;
const GAP: f64 = 34.0;
const BOTTOM: f64 = 0.0;
const COLOURS: [&str; 7] = ["#1f6feb", "#d1495b", "#2e8b57", "#8a6d3b", "#7b4fb5", "#0f8b8d", "#6b7280"];

/// The drawing, as the text of an SVG file.
pub(crate) fn draw(title: &str, panels: &[Panel], marks: &[Mark]) -> String {
    let height = TOP + panels.len() as f64 * (PANEL + GAP) + BOTTOM;
    let points = || panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points);
    let seconds = nice_above(points().map(|point| point.0).fold(1.0, f64::max));
    let x = |at: f64| LEFT + at / seconds * (WIDTH - LEFT - RIGHT);
    let mut svg = Svg::start(height, title);
    for (index, panel) in panels.iter().enumerate() {
        let top = TOP + index as f64 * (PANEL + GAP);
        draw_panel(&mut svg, panel, top, &x);
        for mark in marks {
            let at = x(mark.at);
            svg.line(format_args!(
                r##"<path d="M{at:.1} {top:.1}v{PANEL}" stroke="#999" stroke-dasharray="3 3" fill="none"/>"##
            ));
        }
    }
    for mark in marks {
        svg.text(x(mark.at) + 3.0, TOP - 20.0, "start", &format!(r##"fill="#666">{}"##, escape(mark.label)));
    }
    let bottom = TOP + panels.len() as f64 * (PANEL + GAP) - GAP;
    for step in 0..=5 {
        let at = seconds * f64::from(step) / 5.0;
        svg.text(x(at), bottom + 16.0, "middle", &format!(">{} s", number(at)));
    }
    svg.end()
}

fn draw_panel(svg: &mut Svg, panel: &Panel, top: f64, x: &impl Fn(f64) -> f64) {
    let values = panel.lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let most = nice_above(values.filter(|value| value.is_finite()).fold(0.0, f64::max));
    let y = |value: f64| top + PANEL - value / most * PANEL;
    for step in 0..=2 {
        let value = most * f64::from(step) / 2.0;
        let (at, right) = (y(value), WIDTH - RIGHT);
        svg.line(format_args!(r##"<path d="M{LEFT} {at:.1}H{right}" stroke="#ddd"/>"##));
        svg.text(LEFT - 6.0, at + 4.0, "end", &format!(">{}", number(value)));
    }
    svg.text(LEFT, top - 5.0, "start", &format!(r#"font-weight="bold">{}"#, escape(panel.title)));
    let mut legend = WIDTH - RIGHT;
    for (line, colour) in panel.lines.iter().zip(COLOURS.iter().cycle()) {
        svg.text(legend, top - 5.0, "end", &format!(r#"fill="{colour}">{}"#, escape(line.name)));
        legend -= 7.0 * (line.name.len() + 2) as f64;
        let mut path = String::new();
        for (index, &(at, value)) in line.points.iter().filter(|point| point.1.is_finite()).enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            write!(path, "{command}{:.1} {:.1}", x(at), y(value)).expect("writing to a string cannot fail");
        }
        if !path.is_empty() {
            svg.line(format_args!(r#"<path d="{path}" stroke="{colour}" fill="none"/>"#));
        }
    }
}

struct Svg(String);

impl Svg {
    /// A white sheet with a title.
    fn start(height: f64, title: &str) -> Svg {
        let mut svg = Svg(String::new());
        svg.line(format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11">"#
        ));
        svg.line(format_args!(r#"<rect width="{WIDTH}" height="{height}" fill="white"/>"#));
        svg.text(LEFT, 22.0, "start", &format!(r#"font-size="14">{}"#, escape(title)));
        svg
    }

    fn end(mut self) -> String {
        self.line(format_args!("</svg>"));
        self.0
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{text}").expect("writing to a string cannot fail");
    }

    /// `rest` is what follows the place: attributes, `>` and the text.
    fn text(&mut self, x: f64, y: f64, anchor: &str, rest: &str) {
        let space = if rest.starts_with('>') { "" } else { " " };
        self.line(format_args!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}"{space}{rest}</text>"#));
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The smallest of 1, 2, 2.5 or 5 times a power of ten that is not below a number; 1 for 0.
fn nice_above(number: f64) -> f64 {
    if number <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(number.log10().floor());
    let nice = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * power);
    nice.into_iter().find(|&nice| nice >= number).unwrap_or(10.0 * power)
}

/// A number for an axis: short.
fn number(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", trimmed(value / 1e6)),
        value if value >= 1e4 => format!("{}k", trimmed(value / 1e3)),
        value => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_in_round_numbers() {
        for (number, nice) in [(0.0, 1.0), (0.7, 1.0), (1.0, 1.0), (1.1, 2.0), (23.0, 25.0), (500_001.0, 1e6)]
        {
            assert_eq!(nice_above(number), nice, "{number}");
        }
        assert_eq!(number(2_500_000.0), "2.5M");
        assert_eq!(number(25_000.0), "25k");
        assert_eq!(number(0.5), "0.5");
    }

    #[test]
    fn a_drawing_is_well_formed_also_of_nothing() {
        let line = Line { name: "a<b", points: vec![(0.0, 1.0), (2.0, f64::NAN), (3.0, 7.0)] };
        let panels = [
            Panel { title: "one", lines: vec![line] },
            Panel { title: "none", lines: vec![Line { name: "empty", points: Vec::new() }] },
        ];
        let svg = draw("a & b", &panels, &[Mark { at: 1.0, label: "load" }]);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("a &amp; b") && svg.contains("a&lt;b") && !svg.contains("NaN"));
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }
}
