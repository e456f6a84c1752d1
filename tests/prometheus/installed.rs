//! The recorder of the process.

use datafusion_counting_pool::{PrometheusServer, PrometheusServerError, Registry};
use std::net::TcpListener;

use super::{ANY_PORT, acquire, acquires, get, pool, scrape};

/// One test, for a process has one recorder.
#[test]
fn the_process_is_served_once_at_a_time() {
    // What fails leaves no recorder behind: the next attempt can install one.
    let taken = TcpListener::bind(ANY_PORT).unwrap();
    let in_use = PrometheusServer::builder()
        .with_address(taken.local_addr().unwrap())
        .start();
    assert!(matches!(in_use, Err(PrometheusServerError::Address { .. })));

    let start = || PrometheusServer::builder().with_address(ANY_PORT).start();
    let server = start().unwrap();
    acquire(&pool(Registry::global()), 2);
    metrics::counter!("of_the_application_total").increment(5);
    let text = scrape(server.address());
    assert!(text.contains(&acquires(2)), "{text}");
    assert!(text.contains("\nof_the_application_total 5\n"), "{text}");

    let twice = start().unwrap_err();
    assert!(
        matches!(twice, PrometheusServerError::Running { address } if address == server.address())
    );
    assert!(
        twice.to_string().contains(&server.address().to_string()),
        "{twice}"
    );
    assert!(scrape(server.address()).contains(&acquires(2)));

    let address = server.address();
    drop(server);
    assert!(get(address, "/metrics").is_err());
    let again = PrometheusServer::builder()
        .with_address(address)
        .start()
        .unwrap();
    let text = scrape(again.address());
    assert!(text.contains("\nof_the_application_total 5\n"), "{text}");
    assert!(text.contains(&acquires(2)), "{text}");
}
