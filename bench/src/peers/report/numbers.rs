//! How numbers are shown to people. The end of a metric's name says its unit.

/// The name of a metric, with the unit in which it is shown.
pub(super) fn name(metric: &str) -> String {
    match metric.strip_suffix("_bytes") {
        Some(name) => format!("{name}, MiB"),
        None => metric.to_owned(),
    }
}

/// A number with three digits at least.
pub(super) fn show(metric: &str, number: f64) -> String {
    let number = if metric.ends_with("_bytes") { number / f64::from(1 << 20) } else { number };
    match number.abs() {
        0.0 => "0".to_owned(),
        large if large >= 100.0 => format!("{number:.0}"),
        middle if middle >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// Whether it says anything how a number of Nyala's relates to this one.
pub(super) fn compares(metric: &str, number: f64) -> bool {
    const SAME_FOR_ALL: [&str; 3] = ["own_cpu_ns_per_row", "idle_reached", "acknowledged_rows_looked_for"];
    number > 0.0 && !SAME_FOR_ALL.contains(&metric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_bytes_are_mebibytes() {
        assert_eq!((show("p50_us", 1234.5), show("p50_us", 12.345)), ("1234".to_owned(), "12.3".to_owned()));
        assert_eq!((show("x", 0.0), show("x", 1.0)), ("0".to_owned(), "1.00".to_owned()));
        assert!(compares("cpu_ns_per_row", 0.1) && !compares("cpu_ns_per_row", 0.0));
        assert!(!compares("own_cpu_ns_per_row", 20.0));
        assert_eq!(show("disk_bytes", f64::from(300 << 20)), "300");
        assert_eq!((name("disk_bytes"), name("p50_us")), ("disk, MiB".to_owned(), "p50_us".to_owned()));
    }
}
