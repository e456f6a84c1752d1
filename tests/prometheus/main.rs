//! The server that Prometheus scrapes.

#[path = "../support/http.rs"]
mod http;
mod installed;

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use datafusion_counting_pool::{
    CountingPool, PrometheusServer, PrometheusServerBuilder, PrometheusServerError, Registry,
};
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
use http::{get, request};

const ANY_PORT: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

/// A server that does not touch what the process has only once.
fn own(registry: &Registry) -> PrometheusServerBuilder {
    PrometheusServer::builder()
        .with_address(ANY_PORT)
        .with_registry(registry)
        .with_own_recorder()
}

fn pool(registry: &Registry) -> Arc<CountingPool> {
    let pool = CountingPool::new(Arc::new(UnboundedMemoryPool::default()));
    let pool = Arc::new(pool.with_name("p"));
    registry.add(&pool);
    pool
}

fn acquire(pool: &Arc<CountingPool>, times: usize) {
    let pool: Arc<dyn MemoryPool> = Arc::clone(pool) as _;
    let reservation = MemoryConsumer::new("x").register(&pool);
    for _ in 0..times {
        reservation.try_grow(1).unwrap();
    }
}

fn scrape(address: SocketAddr) -> String {
    let response = get(address, "/metrics").unwrap();
    assert_eq!(response.status, 200);
    let kind = response.header("content-type");
    assert_eq!(kind, Some("text/plain; version=0.0.4; charset=utf-8"));
    response.body
}

fn acquires(calls: usize) -> String {
    format!("\ndatafusion_memory_pool_acquires_total{{pool=\"p\",consumer=\"x\"}} {calls}\n")
}

#[test]
fn each_scrape_shows_the_figures_of_its_moment() {
    let registry = Registry::new();
    let server = own(&registry).start().unwrap();
    let pool = pool(&registry);
    for round in 1..=5 {
        acquire(&pool, 3);
        let text = scrape(server.address());
        assert!(text.contains(&acquires(3 * round)), "{text}");
    }
}

#[test]
fn servers_with_their_own_recorders_stand_side_by_side() {
    let registries = [Registry::new(), Registry::new()];
    let servers = registries
        .each_ref()
        .map(|registry| own(registry).start().unwrap());
    for (times, registry) in [2, 3].into_iter().zip(&registries) {
        acquire(&pool(registry), times);
    }
    for (times, server) in [2, 3].into_iter().zip(&servers) {
        assert!(scrape(server.address()).contains(&acquires(times)));
    }
}

#[test]
fn it_listens_on_this_machine_only_unless_told_otherwise() {
    let server = own(&Registry::new()).start().unwrap();
    assert!(server.address().ip().is_loopback());
    let unless_told = format!("{:?}", PrometheusServer::builder());
    assert!(unless_told.contains("127.0.0.1:9184"), "{unless_told}");
}

#[test]
fn pages_are_served_beside_the_metrics_and_nothing_else_is() {
    let registry = Registry::new();
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let server = own(&registry)
        .with_page("/", "text/html; charset=utf-8", || "<p>hello".into())
        .with_page("/count", "application/json", move || {
            asked
                .fetch_add(1, std::sync::atomic::Ordering::SeqCst)
                .to_string()
        })
        .start()
        .unwrap();
    let get = |path| get(server.address(), path).unwrap();

    let page = get("/");
    assert_eq!((page.status, &*page.body), (200, "<p>hello"));
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert_eq!(get("/count?from=1").body, "0");
    assert_eq!(get("/count").body, "1");

    let missing = get("/metric");
    assert_eq!(missing.status, 404);
    assert_eq!(
        missing.body,
        "/metric is not served, /metrics, /, /count is\n"
    );
    let head = request(server.address(), "HEAD", "/").unwrap();
    assert_eq!((head.status, &*head.body), (200, ""));
    let refused = request(server.address(), "POST", "/metrics").unwrap();
    assert_eq!(
        (refused.status, refused.header("allow")),
        (405, Some("GET, HEAD"))
    );
}

#[test]
fn a_page_that_panics_takes_nothing_with_it() {
    let registry = Registry::new();
    let server = own(&registry)
        .with_page("/broken", "text/plain", || panic!("broken page"))
        .start()
        .unwrap();
    acquire(&pool(&registry), 1);
    assert!(get(server.address(), "/broken").is_err());
    assert!(scrape(server.address()).contains(&acquires(1)));
}

#[test]
fn connections_that_say_nothing_hold_nobody_up() {
    let registry = Registry::new();
    let server = own(&registry).start().unwrap();
    acquire(&pool(&registry), 1);
    let mut silent: Vec<_> = (0..20)
        .map(|_| TcpStream::connect(server.address()).unwrap())
        .collect();
    assert!(scrape(server.address()).contains(&acquires(1)));
    drop(server);
    // They are closed when the server stops.
    for stream in &mut silent {
        let mut rest = vec![];
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty());
    }
}

#[test]
fn a_port_in_use_is_a_clear_error() {
    let taken = TcpListener::bind(ANY_PORT).unwrap();
    let address = taken.local_addr().unwrap();
    let error = own(&Registry::new())
        .with_address(address)
        .start()
        .unwrap_err();
    assert!(matches!(&error, PrometheusServerError::Address { address: a, .. } if *a == address));
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("cannot serve metrics at {address}: ")),
        "{text}"
    );
}

#[test]
fn it_starts_and_stops_inside_another_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let address = runtime.block_on(async {
        let registry = Registry::new();
        let server = own(&registry).start().unwrap();
        acquire(&pool(&registry), 1);
        assert!(scrape(server.address()).contains(&acquires(1)));
        server.address()
    });
    TcpListener::bind(address).expect("the port is free again");
}
