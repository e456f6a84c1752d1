//! What a scrape costs: publishing the figures of a pool to an exporter, and rendering them.
//! Pool calls do not wait for it.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion_counting_pool::{CountingPool, Registry};
use datafusion_execution::memory_pool::{
    MemoryConsumer, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use metrics_exporter_prometheus::PrometheusBuilder;

const ROUNDS: usize = 200;

fn main() {
    println!(
        "{:>10} {:>10} {:>8} {:>12} {:>12}",
        "live", "gone", "series", "publish", "render"
    );
    // About a thousand series; then as many labels and names as a pool keeps apart.
    for (live, gone) in [(68, 0), (34, 34), (200, 1_000)] {
        row(live, gone);
    }
    dropping();
}

fn pool(registry: &Registry) -> Arc<CountingPool> {
    let pool = CountingPool::new(Arc::new(UnboundedMemoryPool::default()));
    let pool = Arc::new(pool.with_timing(false));
    registry.add(&pool);
    pool
}

fn consumer(pool: &Arc<CountingPool>, name: String) -> MemoryReservation {
    let pool: Arc<dyn MemoryPool> = Arc::clone(pool) as _;
    let reservation = MemoryConsumer::new(name).register(&pool);
    for bytes in 1..=9 {
        reservation.try_grow(1 << bytes).expect("there is no limit");
    }
    reservation
}

fn row(live: usize, gone: usize) {
    let registry = Registry::new();
    let recorder = PrometheusBuilder::new().build_recorder();
    let pool = pool(&registry);
    let _live: Vec<_> = (0..live)
        .map(|i| consumer(&pool, format!("operator {i}[0]")))
        .collect();
    for i in 0..gone {
        consumer(&pool, format!("operator {}[{i}]", live + i));
    }
    let publish = || metrics::with_local_recorder(&recorder, || registry.publish());
    publish();
    let text = recorder.handle().render();
    let series = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .count();
    let rendered = || {
        black_box(recorder.handle().render());
    };
    println!(
        "{live:>10} {gone:>10} {series:>8} {:>9.2} ms {:>9.2} ms",
        millis(median(publish)),
        millis(median(rendered)),
    );
}

/// What a pool for each task costs beyond the pool itself.
fn dropping() {
    let registry = Registry::new();
    let nobody = |pool: Arc<CountingPool>| drop(consumer(&pool, "task".into()));
    let alone = median(|| {
        let pool = CountingPool::new(Arc::new(UnboundedMemoryPool::default()));
        nobody(Arc::new(pool.with_timing(false)));
    });
    let added = median(|| nobody(pool(&registry)));
    println!(
        "\na pool that comes and goes: {:.1} µs alone, {:.1} µs in a registry",
        millis(alone) * 1e3,
        millis(added) * 1e3
    );
}

fn median(mut work: impl FnMut()) -> Duration {
    let mut times: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            work();
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[ROUNDS / 2]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
