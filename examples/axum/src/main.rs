//! A service with an HTTP server of its own shows its pools beside whatever else it serves.
//!
//! ```text
//! cargo run -p example-axum
//! curl http://127.0.0.1:3000/metrics
//! ```

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use datafusion_counting_pool::{CountingPool, Registry};
use datafusion_execution::memory_pool::GreedyMemoryPool;
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let handle = PrometheusBuilder::new().install_recorder()?;
    tokio::spawn(upkeep(handle.clone()));

    // The service's sessions share this pool.
    let pool = CountingPool::new(Arc::new(GreedyMemoryPool::new(1 << 30))).with_name("sessions");
    let pool = Arc::new(pool);
    Registry::global().add(&pool);
    let _runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(pool)
        .build_arc()?;

    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("curl http://{}/metrics", listener.local_addr()?);
    axum::serve(listener, app(handle)).await?;
    Ok(())
}

fn app(handle: PrometheusHandle) -> Router {
    let metrics = move || async move {
        let text = Registry::global().render(&handle);
        ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text)
    };
    Router::new()
        .route("/", get(|| async { "the service" }))
        .route("/metrics", get(metrics))
}

/// Clears away what histograms leave between scrapes. The pools publish none; other parts of a
/// service do.
async fn upkeep(handle: PrometheusHandle) {
    let mut ticks = tokio::time::interval(Duration::from_secs(5));
    loop {
        ticks.tick().await;
        handle.run_upkeep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_scrape_shows_the_pool_as_it_is_now() -> Result<(), Box<dyn std::error::Error>> {
        let handle = PrometheusBuilder::new().install_recorder()?;
        let pool = CountingPool::new(Arc::new(GreedyMemoryPool::new(100))).with_name("sessions");
        let pool = Arc::new(pool);
        Registry::global().add(&pool);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = tokio::spawn(async move { axum::serve(listener, app(handle)).await });

        let mut stream = tokio::net::TcpStream::connect(address).await?;
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        let limit = "\ndatafusion_memory_pool_limit_bytes{pool=\"sessions\"} 100\n";
        assert!(text.contains(limit), "{text}");
        server.abort();
        Ok(())
    }
}
