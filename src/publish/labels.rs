//! Label values: clean, and not too many of them.

use std::collections::BTreeSet;
use std::sync::Arc;

/// The label of all consumers beyond the bound.
pub(super) const OTHER: &str = crate::snapshot::OTHER;

/// A value that comes out of any exporter as it went in, and on one line.
///
/// Line breaks and other control characters become spaces: exporters let some of them through,
/// and Prometheus then rejects the whole scrape. A backslash becomes a slash, for the exporter
/// makes one out of two, so that different values would come out as one series twice.
pub(super) fn clean(value: &str) -> Arc<str> {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let cleaned = value.replace(breaks, " ").replace('\\', "/");
    match cleaned.trim() {
        // To Prometheus an empty label is none.
        "" => "unnamed".into(),
        cleaned => cleaned.into(),
    }
}

/// The `consumer` labels of one pool name. A label once given stays: a counter that moved to
/// another one would go down.
#[derive(Debug)]
pub(super) struct Labels {
    given: BTreeSet<Arc<str>>,
    bound: usize,
}

impl Labels {
    /// With labels that are expected. They count against the bound and are given beyond it.
    pub(super) fn new(expected: &[Arc<str>], bound: usize) -> Self {
        Self {
            given: expected.iter().cloned().collect(),
            bound,
        }
    }

    /// Gives out a label, unless the bound is reached.
    pub(super) fn give(&mut self, label: &Arc<str>) {
        if self.given.len() < self.bound {
            self.given.insert(Arc::clone(label));
        }
    }

    pub(super) fn contains(&self, label: &str) -> bool {
        self.given.contains(label)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.given.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cleaned() {
        for (value, cleaned) in [
            ("ExternalSorter", "ExternalSorter"),
            ("a \"quoted\" name", "a \"quoted\" name"),
            ("Größe, 排序", "Größe, 排序"),
            ("two\nlines", "two lines"),
            ("two\r\nlines", "two  lines"),
            ("two\u{2028}lines\u{2029}", "two lines"),
            ("next\u{85}line", "next line"),
            ("tab\tbell\u{7}nul\0", "tab bell nul"),
            ("a\\b", "a/b"),
            ("a\\\\b", "a//b"),
            ("ends in \\", "ends in /"),
            ("", "unnamed"),
            (" \n ", "unnamed"),
        ] {
            assert_eq!(&*clean(value), cleaned, "{value:?}");
        }
    }

    #[test]
    fn no_more_are_given_than_the_bound_but_those_expected() {
        let [a, b, c, d, e] = ["a", "b", "c", "d", "e"].map(Arc::<str>::from);
        let mut labels = Labels::new(&[a.clone(), b, c], 2);
        labels.give(&d);
        assert_eq!((labels.contains("c"), labels.contains("d")), (true, false));

        let mut labels = Labels::new(&[a], 2);
        for label in [&d, &e, &d] {
            labels.give(label);
        }
        assert_eq!((labels.contains("d"), labels.contains("e")), (true, false));
    }
}
