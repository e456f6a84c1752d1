//! What counting costs: a `try_grow` and `shrink` pair over `GreedyMemoryPool`, bare, decorated
//! by what DataFusion has, by `CountingPool`, and by the least that could count the same.
//!
//! `cargo bench --bench overhead` prints a table, `-- --json` one JSON object.
//!
//! A ratio is only as good as its two sides are measured alike. So the alternatives take turns,
//! round by round, and the figure is the median of the rounds' ratios. Benchmark harnesses
//! measure one alternative after the other, which on a shared machine compares two moods.

mod floor;
mod macros;
mod memory;

use comfy_table::{CellAlignment, Table, presets};
use datafusion_counting_pool::CountingPool;
use datafusion_execution::memory_pool::{
    GreedyMemoryPool, MemoryConsumer, MemoryPool, MemoryReservation, PeakRecordingPool,
    TrackConsumersPool,
};
use floor::FloorPool;
use macros::MacrosPool;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::{Arc, Barrier};
use std::time::Instant;

const ROUNDS: usize = 31;
const PAIRS: u64 = 100_000;
const LIMIT: usize = 1 << 30;
const REQUEST: usize = 32 << 10;

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let figures = Figures::measure();
    if json {
        println!("{}", figures.json());
    } else {
        println!("{}", figures.table());
    }
}

/// The alternatives, in the order of the table.
#[derive(Clone, Copy, PartialEq)]
enum Pool {
    Bare,
    Peak,
    Track,
    Untimed,
    Floor,
    Counting,
    Macros,
}

const POOLS: [(Pool, &str); 7] = [
    (Pool::Bare, "GreedyMemoryPool"),
    (Pool::Peak, "PeakRecordingPool"),
    (Pool::Track, "TrackConsumersPool"),
    (Pool::Untimed, "CountingPool, timing off"),
    (Pool::Floor, "floor"),
    (Pool::Counting, "CountingPool"),
    (Pool::Macros, "metrics macros"),
];

impl Pool {
    fn make(self) -> Arc<dyn MemoryPool> {
        let greedy = || GreedyMemoryPool::new(LIMIT);
        match self {
            Self::Bare => Arc::new(greedy()),
            Self::Peak => Arc::new(PeakRecordingPool::new(Arc::new(greedy()))),
            Self::Track => Arc::new(TrackConsumersPool::new(greedy(), NonZeroUsize::MIN)),
            Self::Untimed => Arc::new(CountingPool::new(Arc::new(greedy())).with_timing(false)),
            Self::Floor => Arc::new(FloorPool::new(Arc::new(greedy()))),
            Self::Counting => Arc::new(CountingPool::new(Arc::new(greedy()))),
            Self::Macros => Arc::new(MacrosPool::new(Arc::new(greedy()))),
        }
    }
}

struct Figures {
    /// Medians, nanoseconds a pair.
    nanos: Vec<f64>,
    counting_over_floor: f64,
    floor_over_bare: f64,
    counting_over_track: f64,
    untimed_over_track: f64,
    macros_over_counting: f64,
    macros_over_floor: f64,
    scaling_2_threads: f64,
    bytes_per_consumer: f64,
}

impl Figures {
    fn measure() -> Self {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let rounds = metrics::with_local_recorder(&recorder, one_thread);
        let of = |pool: Pool| {
            POOLS
                .iter()
                .position(|(p, _)| *p == pool)
                .expect("it is listed")
        };
        let ratio =
            |a: Pool, b: Pool| median(rounds.iter().map(|round| round[of(a)] / round[of(b)]));
        Self {
            nanos: (0..POOLS.len())
                .map(|i| median(rounds.iter().map(|round| round[i])))
                .collect(),
            counting_over_floor: ratio(Pool::Counting, Pool::Floor),
            floor_over_bare: ratio(Pool::Floor, Pool::Bare),
            counting_over_track: ratio(Pool::Counting, Pool::Track),
            untimed_over_track: ratio(Pool::Untimed, Pool::Track),
            macros_over_counting: ratio(Pool::Macros, Pool::Counting),
            macros_over_floor: ratio(Pool::Macros, Pool::Floor),
            scaling_2_threads: scaling(),
            bytes_per_consumer: memory::bytes_per_consumer(),
        }
    }

    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "counting_over_floor": self.counting_over_floor,
            "counting_over_track": self.counting_over_track,
            "untimed_over_track": self.untimed_over_track,
            "macros_over_counting": self.macros_over_counting,
            "scaling_2_threads": self.scaling_2_threads,
            "bytes_per_consumer": self.bytes_per_consumer,
        })
    }

    fn table(&self) -> String {
        let mut pairs = Table::new();
        pairs
            .load_preset(presets::NOTHING)
            .set_header(["one try_grow and shrink, 1 thread", "ns"]);
        for ((_, name), nanos) in POOLS.iter().zip(&self.nanos) {
            pairs.add_row([(*name).to_string(), format!("{nanos:.1}")]);
        }
        let mut ratios = Table::new();
        ratios
            .load_preset(presets::NOTHING)
            .set_header(["ratio", "measured", "bar"]);
        for (name, measured, bar) in [
            ("CountingPool / floor", self.counting_over_floor, "<= 1.25"),
            ("floor / GreedyMemoryPool", self.floor_over_bare, ""),
            (
                "CountingPool / TrackConsumersPool",
                self.counting_over_track,
                "<= 3.0",
            ),
            (
                "timing off / TrackConsumersPool",
                self.untimed_over_track,
                "<= 1.2",
            ),
            (
                "metrics macros / CountingPool",
                self.macros_over_counting,
                ">= 12",
            ),
            // What cannot be had here, where the floor itself has no more.
            ("metrics macros / floor", self.macros_over_floor, ""),
            (
                "2 threads over 1, relative to bare",
                self.scaling_2_threads,
                ">= 0.9",
            ),
            ("bytes a live consumer", self.bytes_per_consumer, "<= 1024"),
        ] {
            ratios.add_row([name.to_string(), format!("{measured:.2}"), bar.to_string()]);
        }
        for table in [&mut pairs, &mut ratios] {
            for column in table.column_iter_mut().skip(1) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        format!(
            "{pairs}\n\n{ratios}\n\nMedians of {ROUNDS} interleaved rounds of {PAIRS} pairs.\n{}",
            floor::OPERATIONS
        )
    }
}

/// Nanoseconds a pair, by round and pool.
fn one_thread() -> Vec<Vec<f64>> {
    let consumers: Vec<_> = POOLS
        .iter()
        .map(|(pool, _)| MemoryConsumer::new("Operator[0]").register(&pool.make()))
        .collect();
    for consumer in &consumers {
        pairs(consumer, PAIRS);
    }
    (0..ROUNDS)
        .map(|_| {
            consumers
                .iter()
                .map(|consumer| {
                    let start = Instant::now();
                    pairs(consumer, PAIRS);
                    start.elapsed().as_nanos() as f64 / PAIRS as f64
                })
                .collect()
        })
        .collect()
}

fn pairs(reservation: &MemoryReservation, pairs: u64) {
    for _ in 0..pairs {
        reservation
            .try_grow(black_box(REQUEST))
            .expect("the limit is far away");
        reservation.shrink(black_box(REQUEST));
    }
}

/// Pairs per second of two threads over those of one, each on a consumer of its own; and that
/// over the same of the bare pool.
fn scaling() -> f64 {
    let (bare, counting) = (Pool::Bare.make(), Pool::Counting.make());
    let gain = |pool: &Arc<dyn MemoryPool>| {
        let (one, two) = (nanos_on_threads(pool, 1), nanos_on_threads(pool, 2));
        2.0 * one / two
    };
    median((0..ROUNDS).map(|_| gain(&counting) / gain(&bare)))
}

fn nanos_on_threads(pool: &Arc<dyn MemoryPool>, threads: usize) -> f64 {
    let barrier = Barrier::new(threads);
    let mut took: Vec<f64> = Vec::new();
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let reservation = MemoryConsumer::new("Operator").register(pool);
                    barrier.wait();
                    let start = Instant::now();
                    pairs(&reservation, PAIRS);
                    start.elapsed().as_nanos() as f64
                })
            })
            .collect();
        took.extend(
            started
                .into_iter()
                .map(|thread| thread.join().expect("it does not panic")),
        );
    });
    took.into_iter().fold(0.0, f64::max)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
