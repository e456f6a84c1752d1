//! Whether the time that is reported is the time inside the wrapped pool, and nothing else.
//!
//! The wrapped pool spins for a number of clock ticks and notes, call by call, how long it spun,
//! with a clock of its own. What a call takes beside the spinning, two readings of that clock for
//! the most part, is measured on the bare pool, over many calls and from outside. What
//! `CountingPool` reports is compared with the sum of both, from 1 microsecond to 100
//! milliseconds, alone and beside threads that keep every core busy; and the quantiles of its
//! histogram with those of the times that went into it.
//!
//! `cargo bench --bench accuracy` prints the table.

use comfy_table::{CellAlignment, Table, presets};
use datafusion_common::Result;
use datafusion_counting_pool::{CountingPool, Snapshot};
use datafusion_execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use std::fmt::{self, Display, Formatter};
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// For each: so many calls that the row takes about a second at the most.
const SPINS: [(Duration, u32); 6] = [
    (Duration::from_micros(1), 20_000),
    (Duration::from_micros(10), 20_000),
    (Duration::from_micros(100), 5_000),
    (Duration::from_millis(1), 500),
    (Duration::from_millis(10), 50),
    (Duration::from_millis(100), 10),
];
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

fn main() {
    let beside_spinning = beside_spinning();
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header([
        "spin",
        "beside",
        "calls",
        "mean deviation",
        "allowed",
        "calls outside",
        "worst quantile",
    ]);
    for busy in [0, available_cores()] {
        let _load = Load::new(busy);
        for (spin, calls) in SPINS {
            table.add_row(row(spin, calls, busy, beside_spinning));
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
    println!("\nA deviation is the reported time less the true one: what the pool noted itself,");
    println!("and {beside_spinning:.1} ns that its call takes beside that.");
    println!("Allowed are 2 % or 20 ns, whichever is more; quantiles may be 10 % off.");
}

/// Nanoseconds that a call of the bare pool takes beside what it notes: the least of many rounds,
/// since whatever disturbs a round makes it longer.
fn beside_spinning() -> f64 {
    const ROUNDS: u32 = 200;
    const CALLS: u32 = 100;
    let pool = Arc::new(SpinningPool::new(Duration::from_micros(1)));
    let reservation = MemoryConsumer::new("spin").register(&(Arc::clone(&pool) as _));
    let round = || {
        let mut noted = 0;
        let start = pool.clock.raw();
        for _ in 0..CALLS {
            reservation.grow(1);
            noted += pool.noted.load(Relaxed);
        }
        let took = pool.clock.delta_as_nanos(start, pool.clock.raw());
        (took as f64 - noted as f64) / f64::from(CALLS)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn row(spin: Duration, calls: u32, busy: usize, beside_spinning: f64) -> [String; 7] {
    let spinning = Arc::new(SpinningPool::new(spin));
    let pool = Arc::new(CountingPool::new(Arc::clone(&spinning) as _));
    let reservation = MemoryConsumer::new("spin").register(&(Arc::clone(&pool) as _));

    let allowed = (spin.as_nanos() as f64 * 0.02).max(20.0);
    let (mut outside, mut sum, mut before) = (0, 0.0, 0);
    let mut recorded = Vec::new();
    for _ in 0..calls {
        reservation.grow(1);
        let reported = pool.snapshot().total.acquire_time.total.as_nanos() as u64;
        let took = spinning.noted.load(Relaxed) as f64 + beside_spinning;
        recorded.push(reported - before);
        let deviation = (reported - before) as f64 - took;
        sum += deviation;
        outside += u32::from(deviation.abs() > allowed);
        before = reported;
    }
    [
        format!("{spin:?}"),
        if busy == 0 {
            "nothing".into()
        } else {
            format!("{busy} busy threads")
        },
        calls.to_string(),
        format!("{:+.1} ns", sum / f64::from(calls)),
        format!("{allowed} ns"),
        format!("{:.2} %", 100.0 * f64::from(outside) / f64::from(calls)),
        format!(
            "{:.1} %",
            100.0 * worst_quantile(recorded, &pool.snapshot())
        ),
    ]
}

/// The largest relative deviation of the histogram's quantiles from those of the recorded times.
fn worst_quantile(mut recorded: Vec<u64>, snapshot: &Snapshot) -> f64 {
    recorded.sort_unstable();
    QUANTILES
        .into_iter()
        .map(|q| {
            let rank = (q * recorded.len() as f64).ceil() as usize;
            let recorded = recorded[rank.max(1) - 1] as f64;
            let quantile = snapshot
                .acquire_latency
                .quantile(q)
                .expect("there were calls");
            (quantile.as_nanos() as f64 / recorded - 1.0).abs()
        })
        .fold(0.0, f64::max)
}

/// Spins in each `grow`, and notes for how many nanoseconds.
#[derive(Debug)]
struct SpinningPool {
    clock: quanta::Clock,
    nanos: u64,
    /// How long the last call took.
    noted: AtomicU64,
    reserved: AtomicU64,
}

impl SpinningPool {
    fn new(spin: Duration) -> Self {
        Self {
            clock: quanta::Clock::new(),
            nanos: spin.as_nanos() as u64,
            noted: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
        }
    }
}

impl MemoryPool for SpinningPool {
    fn name(&self) -> &str {
        "spinning"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        self.reserved.fetch_add(additional as u64, Relaxed);
        let start = self.clock.raw();
        let mut took = 0;
        while took < self.nanos {
            spin_loop();
            took = self.clock.delta_as_nanos(start, self.clock.raw());
        }
        self.noted.store(took, Relaxed);
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        self.reserved.fetch_sub(shrink as u64, Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.grow(reservation, additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.reserved.load(Relaxed) as usize
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Infinite
    }
}

impl Display for SpinningPool {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("spinning")
    }
}

/// Threads that keep cores busy until it is dropped.
struct Load(Arc<AtomicBool>);

impl Load {
    fn new(threads: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..threads {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Relaxed) {
                    spin_loop();
                }
            });
        }
        Self(stop)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
