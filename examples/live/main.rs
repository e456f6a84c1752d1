//! Shuffles without end, first with a pool call for each growth and then in steps, and shows it
//! as it happens: on a page, to Prometheus, and a line a second here.
//!
//! ```text
//! cargo run --release --example live --features prometheus
//! cargo run --release --example live --features prometheus -- --help
//! ```

mod cli;
mod history;
mod workload;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Parser;
use datafusion_counting_pool::{CountingPool, PrometheusServer, Registry};
use datafusion_execution::memory_pool::GreedyMemoryPool;
use indicatif::HumanBytes;

use cli::Cli;
use history::{History, Point};
use workload::{PERIOD, TASKS, Workload};

const POOL_BYTES: usize = 64 << 20;
/// The name under which Prometheus knows the pool, and the label of its consumers.
const POOL: &str = "shuffle";
const CONSUMER: &str = "ShuffleRepartitioner";
const JSON: &str = "application/json";
/// Between two looks at what is reserved.
const LOOK: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), Box<dyn Error>> {
    let inner = Arc::new(GreedyMemoryPool::new(POOL_BYTES));
    let pool = Arc::new(CountingPool::new(inner).with_name(POOL));
    let registry = Registry::builder()
        .with_expected(POOL, [CONSUMER])
        .install()?;
    registry.add(&pool);
    let history = Arc::new(History::new(cli.switch_after));
    let workload = Arc::new(Workload::new(Arc::clone(&pool), cli.switch_after)?);

    let server = serve(cli, &pool, &history, &workload)?;
    print_what_to_open(&server);
    workload.stop_on_signals()?;

    thread::scope(|scope| {
        let workload = &*workload;
        let tasks: Vec<_> = (0..TASKS)
            .map(|number| scope.spawn(move || workload.run(number)))
            .collect();
        watch(cli, &pool, &history, workload);
        workload.stop();
        tasks.into_iter().try_for_each(|task| {
            task.join()
                .map_err(|_| "a task panicked")?
                .map_err(Box::from)
        })
    })
    .inspect(|()| println!("\n{}", pool.snapshot()))
}

fn serve(
    cli: &Cli,
    pool: &Arc<CountingPool>,
    history: &Arc<History>,
    workload: &Arc<Workload>,
) -> Result<PrometheusServer, Box<dyn Error>> {
    let (pool, history, workload) = (pool.clone(), history.clone(), workload.clone());
    let snapshot = move || {
        serde_json::to_string(&pool.snapshot()).expect("a snapshot is numbers under plain names")
    };
    let server = PrometheusServer::builder()
        .with_address(cli.listen)
        .with_page("/", "text/html; charset=utf-8", || {
            include_str!("page.html").to_owned()
        })
        .with_page("/snapshot.json", JSON, snapshot)
        .with_page("/history.json", JSON, move || {
            history.json(workload.elapsed()).to_string()
        });
    Ok(server.start()?)
}

fn print_what_to_open(server: &PrometheusServer) {
    let address = server.address();
    println!(
        "Open        http://{address}\n\
         Figures     http://{address}/metrics and /snapshot.json\n\
         Prometheus  prometheus --config.file=examples/live/prometheus.yml \\\n            \
         --storage.tsdb.path=/tmp/live-prometheus --web.listen-address=127.0.0.1:9090"
    );
    if address.port() != 9184 {
        println!("            (there, change the target to {address})");
    }
    println!("Stop        Ctrl-C\n");
}

/// Keeps the history, and prints a line a second, until the time is over or somebody stops it.
fn watch(cli: &Cli, pool: &CountingPool, history: &History, workload: &Workload) {
    // Just before a round begins is when the one before is over.
    let mut next_point = PERIOD - LOOK;
    let mut next_line = Duration::from_secs(1);
    let mut last = pool.snapshot();
    let mut most_reserved = 0;
    let mut per_task = None;
    let mut point = None;
    while !workload.is_stopped() && cli.seconds.is_none_or(|end| workload.elapsed() < end) {
        thread::sleep(LOOK);
        let (now, at) = (pool.snapshot(), workload.elapsed());
        most_reserved = most_reserved.max(now.total.reserved_bytes);
        if at >= next_point {
            let new = Point::between(&last, &now, at, most_reserved);
            history.push(new);
            per_task = new.acquires_per_task.or(per_task);
            (point, last, most_reserved) = (Some(new), now, 0);
            next_point += PERIOD;
        }
        if at >= next_line {
            if let Some(point) = &point {
                print_line(next_line, workload.in_steps(), per_task, point);
            }
            next_line += Duration::from_secs(1);
        }
    }
}

fn print_line(at: Duration, in_steps: bool, per_task: Option<f64>, point: &Point) {
    println!(
        "{:>6} s  {}  {:>4} acquires a task  {:>5.0} acquires/s  {:>6.1} µs/s in the pool  \
         {:>10} reserved",
        at.as_secs(),
        if in_steps { "in steps" } else { "exact   " },
        per_task.map_or_else(|| "-".into(), |acquires| format!("{acquires:.0}")),
        point.acquires_per_second,
        point.pool_time.as_secs_f64() * 1e6,
        HumanBytes(point.reserved_bytes).to_string(),
    );
}
