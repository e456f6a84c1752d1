//! With a real Prometheus and a real browser. They have to be installed, and so does the example
//! `live`, whose path is in the variable `LIVE`: `.ci/prometheus` sees to both and runs these.

mod browser;
mod dashboard;
#[path = "../support/http.rs"]
mod http;
mod live;
mod programs;
mod promtool;
mod server;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The files that are shipped for Prometheus.
fn shipped(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(path);
    assert!(path.exists(), "{}", path.display());
    path
}

/// A folder for what the checks leave to look at.
fn kept() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("real-parts");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// What `/metrics` shows, as Prometheus' text format.
fn scrape(address: SocketAddr) -> String {
    let answer = http::get(address, "/metrics").unwrap();
    let kind = answer.header("content-type").unwrap();
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    answer.body
}

/// Waits until something holds, and fails after a minute.
#[track_caller]
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        let patience = Duration::from_secs(60);
        assert!(started.elapsed() < patience, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
