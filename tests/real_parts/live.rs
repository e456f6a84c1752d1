//! The example `live`, scraped and looked at through the switch.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::programs::{Running, free_address};
use crate::promtool::check_metrics;
use crate::server::{Prometheus, number};
use crate::{browser, dashboard, http, scrape, until};

const SWITCH_AFTER: f64 = 30.0;
/// Over which rates are taken, in seconds.
const WINDOW: f64 = 15.0;
/// Tasks that began before the switch end after it, and then a scrape has to come.
const SLACK: f64 = 8.0;
const END: f64 = SWITCH_AFTER + WINDOW + 2.0 * SLACK;
/// Room for what is looked at after the last moment that matters.
const SECONDS: f64 = END + 25.0;

/// What one task asks, from the sizes of its batches and of its index: calls and bytes.
const EXACT: (f64, f64) = (256.0, 25_165_824.0);
const IN_STEPS: (f64, f64) = (13.0, 25_198_592.0);

struct Live {
    address: SocketAddr,
    example: Running,
}

impl Live {
    fn start() -> Self {
        let address = free_address();
        let program = std::env::var("LIVE").expect("LIVE is the path of the example");
        let example = Command::new(&program)
            .args(["--listen", &address.to_string()])
            .args(["--switch-after", &SWITCH_AFTER.to_string()])
            .args(["--seconds", &SECONDS.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let live = Self {
            address,
            example: Running(example),
        };
        until("the example serves", || http::get(address, "/metrics").ok());
        live
    }

    /// Waits until the example has run so long.
    fn wait_until(&self, seconds: f64) {
        until("the example is as far", || {
            let history = http::get(self.address, "/history.json").unwrap().body;
            let history: Value = serde_json::from_str(&history).unwrap();
            (history["elapsed"].as_f64().unwrap() >= seconds).then_some(())
        });
    }

    /// What it printed, once it has ended by itself.
    fn printed(mut self) -> String {
        let mut printed = String::new();
        let mut output = self.example.0.stdout.take().unwrap();
        output.read_to_string(&mut printed).unwrap();
        let status = self.example.0.wait().unwrap();
        assert!(status.success(), "{status}: {printed}");
        printed
    }
}

#[test]
#[ignore = "needs Prometheus, Chromium and the example"]
fn two_hundred_and_fifty_six_become_thirteen() {
    let live = Live::start();
    let prometheus = Prometheus::scraping(live.address);

    live.wait_until(SWITCH_AFTER - SLACK);
    expect_rate(&prometheus, EXACT.0);
    let page = browser::open(live.address);
    assert_eq!(page.text("per-task"), "256");
    expect_figures(&page);
    assert!(!page.contains("in steps</text>"));
    browser::screenshot(live.address, "before", false);

    live.wait_until(END);
    expect_rate(&prometheus, IN_STEPS.0);
    let page = browser::open(live.address);
    assert_eq!(page.text("per-task"), "13");
    expect_figures(&page);
    for step in ["256 exact</text>", "13 in steps</text>"] {
        assert!(page.contains(step), "{step}: {page:?}");
    }
    browser::screenshot(live.address, "after", false);
    browser::screenshot(live.address, "after-dark", true);

    check_metrics(&scrape(live.address));
    expect_exact_differences(&prometheus);
    expect_dashboard(&prometheus);
    assert_eq!(prometheus.number("min_over_time(up[1m])"), 1.0);
    let took = prometheus.number("max_over_time(scrape_duration_seconds[1m])");
    println!("the slowest scrape took {:.1} ms", took * 1e3);

    let printed = live.printed();
    assert!(printed.contains("256 acquires a task"), "{printed}");
    assert!(printed.contains("13 acquires a task"), "{printed}");
    assert!(printed.contains("pool \"shuffle\""), "{printed}");
}

/// The figure to lead with, as a dashboard asks for it.
#[track_caller]
fn expect_rate(prometheus: &Prometheus, expected: f64) {
    let rate = |name| format!("sum(rate(datafusion_memory_pool_{name}[{WINDOW}s]))");
    let query = format!(
        "{} / {}",
        rate("finished_acquires_total"),
        rate("finished_consumers_total")
    );
    let acquires = prometheus.number(&query);
    println!("Prometheus: {acquires:.2} acquires for each finished consumer");
    assert!((acquires / expected - 1.0).abs() <= 0.02, "{acquires}");
}

fn expect_figures(page: &browser::Page) {
    for id in ["per-second", "pool-time", "reserved"] {
        let text = page.text(id);
        assert!(
            text.starts_with(|c: char| c.is_ascii_digit()),
            "{id}: {text}"
        );
    }
    for name in ["ShuffleRepartitioner[0]", "ShuffleRepartitioner[1]"] {
        assert!(
            page.contains(&format!("<td>{name}</td>")),
            "{name}: {page:?}"
        );
    }
    let status = page.text("status");
    assert!(status.starts_with("running for "), "{status}");
    println!(
        "page: {} acquires per task, {} a second, {} in the pool, {} reserved, {status}",
        page.text("per-task"),
        page.text("per-second"),
        page.text("pool-time"),
        page.text("reserved"),
    );
}

/// Between two scrapes that found no task in flight, so many tasks have asked so often, for so
/// many bytes, and each has released once.
fn expect_exact_differences(prometheus: &Prometheus) {
    let names = [
        "consumers",
        "finished_consumers_total",
        "acquires_total",
        "acquired_bytes_total",
        "releases_total",
        "released_bytes_total",
        "registrations_total",
        "reserved_bytes",
    ];
    // By time of the scrape, as stored: no rate, nothing in between.
    let mut scrapes: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for name in names {
        let series = prometheus.query(&format!("datafusion_memory_pool_{name}[3m]"));
        assert_eq!(series.len(), 1, "{name}");
        for sample in series[0]["values"].as_array().unwrap() {
            let millis = (sample[0].as_f64().unwrap() * 1e3) as u64;
            scrapes.entry(millis).or_default().push(number(&sample[1]));
        }
    }
    let quiet: Vec<_> = scrapes
        .into_values()
        .filter(|values| values.len() == names.len() && values[0] == 0.0)
        .collect();
    // From the first on all tasks were exact as long as this holds.
    let is_exact = |values: &&Vec<f64>| values[2] == EXACT.0 * values[1];
    let exact: Vec<_> = quiet.iter().filter(is_exact).collect();
    let last_of_all = quiet.last().expect("scrapes with no task in flight");
    let in_steps: Vec<_> = quiet
        .iter()
        .filter(|values| {
            let (tasks, acquires) = (last_of_all[1] - values[1], last_of_all[2] - values[2]);
            acquires == IN_STEPS.0 * tasks
        })
        .collect();
    for (name, scrapes, (calls, bytes)) in
        [("exact", exact, EXACT), ("in steps", in_steps, IN_STEPS)]
    {
        let [first, .., last] = scrapes[..] else {
            panic!(
                "{name}: {} scrapes that found no task in flight",
                scrapes.len()
            );
        };
        let differences: Vec<_> = last
            .iter()
            .zip(first)
            .map(|(last, first)| last - first)
            .collect();
        let tasks = differences[1];
        assert!(tasks >= 10.0, "{name}: only {tasks} tasks");
        let each = [0.0, 1.0, calls, bytes, 1.0, bytes, 1.0, 0.0];
        for ((figure, difference), each) in names.iter().zip(&differences).zip(each) {
            assert_eq!(
                *difference,
                each * tasks,
                "{name}: {figure} over {tasks} tasks"
            );
        }
        println!(
            "{name}: {} quiet scrapes, over {tasks} tasks exactly {} acquires of {} bytes",
            scrapes.len(),
            differences[2],
            differences[3]
        );
    }
}

/// Every expression of the dashboard has an answer, and so has every recording rule.
fn expect_dashboard(prometheus: &Prometheus) {
    let queries = dashboard::queries("30s");
    for (title, query) in &queries {
        let series = prometheus.query(query);
        assert!(!series.is_empty(), "{title}: {query}");
    }
    let rules = prometheus.query("count by (__name__) ({__name__=~\"job_.*:datafusion.*\"})");
    assert_eq!(rules.len(), 17, "{rules:?}");
    println!(
        "Prometheus: {} expressions of the dashboard and {} rules have answers",
        queries.len(),
        rules.len()
    );
}
