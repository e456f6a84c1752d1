//! A progress bar for people who wait, and nothing for pipes.

use std::io::{IsTerminal, stderr};
use std::sync::Once;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that ends sooner needs no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// How far the run is, in rows.
#[derive(Debug)]
pub(crate) struct Progress {
    /// `None` where standard error is no terminal.
    bar: Option<ProgressBar>,
    started: Instant,
    shown: Once,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
            bar.with_style(style("{spinner} {human_pos} rows · {msg}"))
        });
        Self {
            bar,
            started: Instant::now(),
            shown: Once::new(),
        }
    }

    /// Says what is being done from now on.
    pub(crate) fn start(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
        }
    }

    /// How many rows there will be until the end, which is not known before all were seen once.
    pub(crate) fn expect(&self, rows: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(rows);
            bar.set_style(style("{bar:40} {percent:>3} % · {eta} left · {msg}"));
        }
    }

    pub(crate) fn advance(&self, rows: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(rows);
            if self.started.elapsed() >= PATIENCE {
                self.shown
                    .call_once(|| bar.set_draw_target(ProgressDrawTarget::stderr()));
            }
        }
    }

    /// Leaves the terminal as it was.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates are constants, and right")
}
