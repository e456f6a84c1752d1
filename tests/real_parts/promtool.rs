//! What Prometheus' own tool says of the files, and of a scrape.

use std::sync::Arc;

use datafusion_counting_pool::{CountingPool, PrometheusServer, Registry};
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};

use crate::programs::{Said, run};
use crate::{scrape, shipped};

/// The one piece of advice that cannot be taken: the facade's counters are whole numbers, and
/// whole seconds would be too coarse.
const NANOSECONDS: &str = "use base unit \"seconds\" instead of \"nanoseconds\"";

pub(crate) fn check(arguments: &[&str], paths: &[&str]) -> Said {
    let paths = paths.iter().map(|path| shipped(path).into_os_string());
    let arguments = arguments.iter().map(Into::into).chain(paths);
    let said = run("promtool", arguments, "");
    assert!(said.content, "{}", said.text);
    said
}

/// # Panics
/// Where promtool has any other advice than the one that may stand.
#[track_caller]
pub(crate) fn check_metrics(scrape: &str) {
    let said = run("promtool", ["check", "metrics"], scrape).text;
    let unexpected: Vec<_> = said
        .lines()
        .filter(|line| !line.is_empty() && !line.ends_with(NANOSECONDS))
        .collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    let series = scrape.lines().filter(|line| !line.starts_with('#')).count();
    println!("promtool check metrics: {series} lines, nothing but the nanoseconds");
}

#[test]
#[ignore = "needs promtool"]
fn configurations_and_rules_are_right() {
    for configuration in ["prometheus/prometheus.yml", "live/prometheus.yml"] {
        let said = check(&["check", "config"], &[configuration]);
        println!(
            "promtool check config {configuration}: {}",
            first_line(&said, "SUCCESS")
        );
    }
    for rules in [
        "prometheus/recording-rules.yml",
        "prometheus/alert-rules.yml",
    ] {
        let said = check(&["check", "rules"], &[rules]);
        println!(
            "promtool check rules {rules}: {}",
            first_line(&said, "SUCCESS")
        );
    }
    for tests in ["step", "latency", "alerts"] {
        let tests = format!("prometheus/tests/{tests}.test.yml");
        let said = check(&["test", "rules"], &[&tests]);
        println!(
            "promtool test rules {tests}: {}",
            first_line(&said, "SUCCESS")
        );
    }
}

fn first_line<'a>(said: &'a Said, word: &str) -> &'a str {
    let line = said.text.lines().find(|line| line.contains(word));
    line.expect(&said.text).trim()
}

#[test]
#[ignore = "needs promtool"]
fn a_scrape_with_hostile_names_is_read() {
    let registry = Registry::builder().with_label(str::to_owned).build();
    let server = PrometheusServer::builder()
        .with_address(([127, 0, 0, 1], 0))
        .with_registry(&registry)
        .with_own_recorder()
        .start()
        .unwrap();
    let names = [
        "a\\b",
        "a\\\\b",
        "a\r\nb",
        "\"a\"",
        "{a=\"b\"} 1",
        "\u{2028}",
        "",
        "ä 排",
        "#",
    ];
    for name in names {
        let inner = Arc::new(UnboundedMemoryPool::default());
        let pool = Arc::new(CountingPool::new(inner).with_name(name));
        registry.add(&pool);
        let pool: Arc<dyn MemoryPool> = pool;
        for name in names {
            MemoryConsumer::new(name)
                .register(&pool)
                .try_grow(1)
                .unwrap();
        }
    }
    check_metrics(&scrape(server.address()));
}
