//! Figures in the units that people read.

use std::time::Duration;

use indicatif::{HumanBytes, HumanCount};

pub(crate) fn count(count: u64) -> String {
    HumanCount(count).to_string()
}

/// A count with its noun, in the plural unless there is one.
pub(crate) fn of(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", HumanCount(count))
}

/// An amount of bytes, rounded.
pub(crate) fn bytes(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

/// A size in bytes, in the largest unit that gives it exactly.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let (mut amount, mut unit) = (bytes, "B");
    for larger in units {
        if amount == 0 || amount % 1024 != 0 {
            break;
        }
        (amount, unit) = (amount / 1024, larger);
    }
    format!("{} {unit}", HumanCount(amount))
}

pub(crate) fn duration(time: Duration) -> String {
    match time.as_nanos() as f64 {
        nanos @ ..1e3 => format!("{nanos} ns"),
        nanos @ ..1e6 => format!("{:.1} µs", nanos / 1e3),
        nanos @ ..1e9 => format!("{:.1} ms", nanos / 1e6),
        nanos => format!("{:.2} s", nanos / 1e9),
    }
}

/// From the least to the most of something; once where they read the same, and with the unit once
/// where it is the same.
pub(crate) fn spread(least: &str, most: &str) -> String {
    if least == most || least.is_empty() {
        return most.to_owned();
    }
    match (least.rsplit_once(' '), most.rsplit_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number}–{most}"),
        _ => format!("{least}–{most}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact() {
        let sizes = [
            (0, "0 B"),
            (1_000, "1,000 B"),
            (32_768, "32 KiB"),
            (98_304, "96 KiB"),
            (1 << 20, "1 MiB"),
        ];
        for (bytes, text) in sizes {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(size((1 << 20) + 1), "1,048,577 B");
    }

    #[test]
    fn durations_have_the_unit_that_fits() {
        let durations = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.0 µs"),
            (91_250_000, "91.2 ms"),
            (2_345_000_000, "2.35 s"),
        ];
        for (nanos, text) in durations {
            assert_eq!(duration(Duration::from_nanos(nanos)), text);
        }
    }

    #[test]
    fn a_spread_says_a_thing_once() {
        assert_eq!(spread("13", "13"), "13");
        assert_eq!(spread("12", "13"), "12–13");
        assert_eq!(spread("24.00 MiB", "24.03 MiB"), "24.00–24.03 MiB");
        assert_eq!(spread("990 ns", "1.2 µs"), "990 ns–1.2 µs");
        assert_eq!(spread("", "32 KiB"), "32 KiB");
    }
}
