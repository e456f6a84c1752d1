//! A process that has another recorder. In a process of its own, for it cannot be taken back.

#[path = "support/http.rs"]
mod http;

use std::net::{Ipv4Addr, TcpListener};

use datafusion_counting_pool::{PrometheusServer, PrometheusServerError, Registry};
use metrics_exporter_prometheus::PrometheusBuilder;

#[test]
fn another_recorder_is_a_clear_error_and_nothing_is_left_half_done() {
    let handle = PrometheusBuilder::new().install_recorder().unwrap();
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = free.local_addr().unwrap();
    drop(free);

    let start = || PrometheusServer::builder().with_address(address);
    for _ in 0..2 {
        let error = start().start().unwrap_err();
        assert!(matches!(error, PrometheusServerError::RecorderInstalled));
        assert!(
            error.to_string().contains("another metrics recorder"),
            "{error}"
        );
        TcpListener::bind(address).expect("nothing is served there");
    }

    // Both ways that the error names.
    let registry = Registry::builder().with_expected("p", ["x"]).build();
    let series = r#"datafusion_memory_pool_acquires_total{pool="p",consumer="x"} 0"#;
    assert!(registry.render(&handle).contains(series));
    let server = start()
        .with_registry(&registry)
        .with_own_recorder()
        .start()
        .unwrap();
    assert!(
        http::get(server.address(), "/metrics")
            .unwrap()
            .body
            .contains(series)
    );
    let head = http::request(server.address(), "HEAD", "/metrics").unwrap();
    let kind = head.header("content-type").unwrap();
    assert!(kind.starts_with("text/plain"), "{kind}");
    assert_eq!((head.status, &*head.body), (200, ""));
}
