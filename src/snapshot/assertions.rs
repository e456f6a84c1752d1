//! What tests of operators assert again and again. A failure shows the figures it judged, and
//! points at the caller's line.

use super::Snapshot;
use crate::figures::Figures;
use datafusion_execution::memory_pool::human_readable_size;
use std::cmp::Reverse;
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
        if acquires <= calls {
            return;
        }
        let headline = format!("expected at most {calls} acquires, there were {acquires}");
        panic!(
            "{}",
            self.judged(
                &headline,
                "asked for nothing",
                |figures| figures.acquires.calls,
                |figures| {
                    let sizes: Vec<_> = figures
                        .sizes
                        .iter()
                        .take(3)
                        .map(|size| match size.error {
                            0 => format!("{} of {} bytes", size.calls, size.bytes),
                            e => format!(
                                "{} to {} of {} bytes",
                                size.calls - e,
                                size.calls,
                                size.bytes
                            ),
                        })
                        .collect();
                    format!("{} acquires: {}", figures.acquires.calls, sizes.join(", "))
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
        let headline = format!(
            "expected no denial, there were {} of {}",
            denied.calls,
            exact(denied.bytes)
        );
        let mut message = self.judged(
            &headline,
            "not denied",
            |figures| figures.denied.calls,
            |figures| {
                format!(
                    "{} of {} acquires denied, {}; peak {}",
                    figures.denied.calls,
                    figures.acquires.calls,
                    exact(figures.denied.bytes),
                    exact(figures.peak_bytes),
                )
            },
        );
        for denial in self.last_denials() {
            let _ = write!(message, "\n  {}", denial.to_string().replace('\n', "\n  "));
        }
        panic!("{message}");
    }

    /// Asserts that nothing is reserved any more and that no fewer bytes were released than
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
    /// Where one said it cannot, or where none registered: then nothing was tested.
    #[track_caller]
    pub fn assert_every_consumer_spillable(&self) {
        let all = self.total.registrations;
        let unspillable = self.total.unspillable_registrations;
        let headline = match all {
            0 => "expected every consumer to be spillable, nobody has registered".into(),
            _ if unspillable == 0 => return,
            _ => format!("expected every consumer to be spillable, {unspillable} of {all} are not"),
        };
        panic!(
            "{}",
            self.judged(
                &headline,
                "spillable",
                |figures| figures.unspillable_registrations,
                |figures| {
                    format!(
                        "{} of {} registered without can_spill",
                        figures.unspillable_registrations, figures.registrations
                    )
                },
            )
        );
    }

    /// Whether nothing is held, and as much was given back as was acquired: or more, in a
    /// difference, where some of it was acquired before.
    pub(crate) fn everything_released(&self) -> bool {
        self.total.reserved_bytes == 0
            && self.total.releases.bytes >= self.total.acquires.acquired_bytes
    }

    /// What is still held, and by whom.
    pub(crate) fn holders(&self, expected: &str) -> String {
        let total = &self.total;
        let headline = format!(
            "{expected}, {} are held: {} acquired, {} released",
            exact(total.reserved_bytes),
            total.acquires.acquired_bytes,
            total.releases.bytes,
        );
        self.judged(
            &headline,
            "hold nothing",
            |figures| figures.reserved_bytes.max(unreleased(figures)),
            |figures| {
                format!(
                    "{} held: {} acquired, {} released; {} of {} consumers still registered",
                    exact(figures.reserved_bytes),
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

    /// A headline, a line for each row whose guilt is not 0, the guiltiest first, and the names
    /// of the `innocent` ones.
    fn judged(
        &self,
        headline: &str,
        innocent: &str,
        guilt: impl Fn(&Figures) -> u64,
        line: impl Fn(&Figures) -> String,
    ) -> String {
        let (mut guilty, others): (Vec<_>, Vec<_>) = self
            .busiest_first()
            .into_iter()
            .partition(|row| guilt(&row.figures) > 0);
        guilty.sort_by_key(|row| Reverse(guilt(&row.figures)));
        let mut message = format!("{headline}, in pool {:?}", self.pool);
        for row in guilty.iter().take(MOST_ROWS) {
            let _ = write!(message, "\n  {}: {}", row.name, line(&row.figures));
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
            let _ = write!(message, "\n  {innocent}: {}", names.join(", "));
            if others.len() > MOST_ROWS {
                let _ = write!(message, " and {} more", others.len() - MOST_ROWS);
            }
        }
        message
    }
}

fn unreleased(figures: &Figures) -> u64 {
    let acquired = figures.acquires.acquired_bytes;
    acquired.saturating_sub(figures.releases.bytes)
}

/// Bytes to the byte, and in units where these say more.
fn exact(bytes: u64) -> String {
    if bytes < 10_000 {
        format!("{bytes} bytes")
    } else {
        format!("{bytes} bytes ({})", human_readable_size(bytes as usize))
    }
}
