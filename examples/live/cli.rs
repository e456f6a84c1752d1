//! The command line.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;

/// Watch a shuffle ask its memory pool 256 times a task, and then 13 times
///
/// Tasks shuffle one after another over one memory pool, without end: first with a pool call for
/// each growth, and from a moment on with growth in steps. A page shows it as it happens, and
/// Prometheus can scrape it.
#[derive(Clone, Debug, Parser)]
#[command(name = "live", max_term_width = 100)]
pub(crate) struct Cli {
    /// Seconds until memory is reserved in steps
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_seconds)]
    pub switch_after: Duration,

    /// Stop after so many seconds [default: run until interrupted]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub seconds: Option<Duration>,

    /// Where to serve the page and the metrics
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9184")]
    pub listen: SocketAddr,
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "expected a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
