//! What tests of operators assert again and again. A failure shows the figures it judged, and
//! points at the caller's line.

use super::{NamedFigures, Snapshot};
use std::fmt::Write;

/// Rows that a failure shows.
const MOST_ROWS: usize = 20;

impl Snapshot {
    /// Asserts that all consumers together asked for memory at most this often: `try_grow` and
    /// `grow` calls of more than zero bytes, denied ones included.
    ///
    /// # Panics
    /// Where they asked more often.
    #[track_caller]
    pub fn assert_acquires_at_most(&self, calls: u64) {
        let acquires = self.total.acquires.calls;
        assert!(
            acquires <= calls,
            "{}",
            self.judged(
                &format!("expected at most {calls} acquires, there were {acquires}"),
                |row| row.figures.acquires.calls > 0,
                |row| {
                    let sizes: Vec<_> = row
                        .figures
                        .sizes
                        .iter()
                        .take(3)
                        .map(|size| format!("{} of {} bytes", size.calls, size.bytes))
                        .collect();
                    format!(
                        "{} acquires: {}",
                        row.figures.acquires.calls,
                        sizes.join(", ")
                    )
                },
            )
        );
    }

    /// Asserts that no `try_grow` ended in `ResourcesExhausted`.
    ///
    /// # Panics
    /// Where one did.
    #[track_caller]
    pub fn assert_nothing_denied(&self) {
        let denied = self.total.denied;
        if denied.calls == 0 {
            return;
        }
        let mut message = self.judged(
            &format!(
                "expected no denial, there were {} of {} bytes",
                denied.calls, denied.bytes
            ),
            |row| row.figures.denied.calls > 0,
            |row| {
                let figures = &row.figures;
                format!(
                    "{} of {} acquires denied, {} bytes; peak {} bytes",
                    figures.denied.calls,
                    figures.acquires.calls,
                    figures.denied.bytes,
                    figures.peak_bytes,
                )
            },
        );
        for denial in &self.denials {
            let _ = write!(message, "\n  {denial}");
        }
        panic!("{message}");
    }

    /// Asserts that nothing is reserved any more and that as many bytes were released as
    /// acquired.
    ///
    /// # Panics
    /// Where something is still held.
    #[track_caller]
    pub fn assert_everything_released(&self) {
        if !self.everything_released() {
            panic!("{}", self.holders("expected everything to be released"));
        }
    }

    /// Asserts that every consumer that registered said that it can spill.
    ///
    /// # Panics
    /// Where one said it cannot, or where none registered.
    #[track_caller]
    pub fn assert_every_consumer_spillable(&self) {
        let registrations = self.total.registrations;
        let unspillable = self.total.unspillable_registrations;
        assert!(
            registrations > 0 && unspillable == 0,
            "{}",
            self.judged(
                &format!("expected every consumer to be spillable, {unspillable} of {registrations} are not"),
                |row| row.figures.unspillable_registrations > 0,
                |row| {
                    let figures = &row.figures;
                    format!(
                        "{} of {} registered without can_spill",
                        figures.unspillable_registrations, figures.registrations
                    )
                },
            )
        );
    }

    /// Whether nothing is held, and as much was given back as was acquired.
    pub(crate) fn everything_released(&self) -> bool {
        self.total.reserved_bytes == 0
            && self.total.releases.bytes == self.total.acquires.acquired_bytes
    }

    /// What is still held, and by whom.
    pub(crate) fn holders(&self, expected: &str) -> String {
        let total = &self.total;
        self.judged(
            &format!(
                "{expected}, {} bytes are held: {} acquired, {} released",
                total.reserved_bytes, total.acquires.acquired_bytes, total.releases.bytes,
            ),
            |row| row.figures.releases.bytes != row.figures.acquires.acquired_bytes,
            |row| {
                let figures = &row.figures;
                format!(
                    "{} bytes held: {} acquired, {} released; {} of {} consumers still registered",
                    figures.reserved_bytes,
                    figures.acquires.acquired_bytes,
                    figures.releases.bytes,
                    figures
                        .registrations
                        .saturating_sub(figures.unregistrations),
                    figures.registrations,
                )
            },
        )
    }

    /// A headline, a line for each guilty row, and the names of the others.
    fn judged(
        &self,
        headline: &str,
        guilty: impl Fn(&NamedFigures) -> bool,
        line: impl Fn(&NamedFigures) -> String,
    ) -> String {
        let (guilty, others): (Vec<_>, Vec<_>) = self.busiest_first().into_iter().partition(guilty);
        let mut message = format!("{headline}, in pool {:?}", self.pool);
        for row in guilty.iter().take(MOST_ROWS) {
            let _ = write!(message, "\n  {}: {}", row.name, line(row));
        }
        if guilty.len() > MOST_ROWS {
            let _ = write!(message, "\n  and {} more", guilty.len() - MOST_ROWS);
        }
        if !others.is_empty() {
            let names: Vec<_> = others
                .iter()
                .take(MOST_ROWS)
                .map(|row| &*row.name)
                .collect();
            let _ = write!(message, "\n  the others are fine: {}", names.join(", "));
            if others.len() > MOST_ROWS {
                let _ = write!(message, " and {} more", others.len() - MOST_ROWS);
            }
        }
        message
    }
}
