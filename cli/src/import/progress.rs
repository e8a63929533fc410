//! Progress bars, on standard error and only if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::Style;

/// For reading so many bytes; `None` if nobody knows how many.
pub(crate) fn of_bytes(bytes: Option<u64>) -> ProgressBar {
    let colour = match Style::of_stderr() {
        Style::Coloured => ".cyan",
        Style::Plain => "",
    };
    let bar = ProgressBar::new(bytes.unwrap_or(0));
    let template = match bytes {
        Some(_) => format!(
            "{{bar:40{colour}}} {{bytes}} of {{total_bytes}}, {{bytes_per_sec}}, {{eta}} left {{msg}}"
        ),
        None => format!(
            "{{spinner{}}} {{bytes}}, {{bytes_per_sec}} {{msg}}",
            if colour.is_empty() { "" } else { ":.cyan" }
        ),
    };
    styled(bar, &template)
}

/// For writing rows.
pub(crate) fn of_rows() -> ProgressBar {
    styled(ProgressBar::new_spinner(), "{spinner} {human_pos} rows, {per_sec}")
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    bar.set_style(ProgressStyle::with_template(template).expect("the template is ours"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
