//! `AggregateExec` chooses how it aggregates by the pool's limit. A decorator that said
//! something else than the pool it wraps would change the plans of everybody who installs it.

use crate::support::{column, context, in_memory};
use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use datafusion_common::Result;
use datafusion_counting_pool::CountingPool;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
    UnboundedMemoryPool,
};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use futures::TryStreamExt;
use std::fmt;
use std::sync::{Arc, Mutex};

/// Grants everything, and has never heard of limits.
#[derive(Debug)]
struct PoolOfUnknownLimit;

impl fmt::Display for PoolOfUnknownLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl MemoryPool for PoolOfUnknownLimit {
    fn name(&self) -> &str {
        "unknown limit"
    }

    fn grow(&self, _: &MemoryReservation, _: usize) {}

    fn shrink(&self, _: &MemoryReservation, _: usize) {}

    fn try_grow(&self, _: &MemoryReservation, _: usize) -> Result<()> {
        Ok(())
    }

    fn reserved(&self) -> usize {
        0
    }
}

/// Notes who registers with the pool that it wraps.
#[derive(Debug)]
struct RegistrationsPool {
    inner: Arc<dyn MemoryPool>,
    names: Mutex<Vec<String>>,
}

impl RegistrationsPool {
    fn new(inner: Arc<dyn MemoryPool>) -> Self {
        let names = Mutex::default();
        Self { inner, names }
    }

    fn names(&self) -> Vec<String> {
        self.names.lock().unwrap().clone()
    }
}

impl fmt::Display for RegistrationsPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl MemoryPool for RegistrationsPool {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.names.lock().unwrap().push(consumer.name().to_owned());
        self.inner.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.inner.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.inner.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.inner.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.inner.memory_limit()
    }
}

const LIMIT: usize = 1 << 20;

fn pools() -> [(&'static str, Arc<dyn MemoryPool>); 4] {
    [
        ("Finite(1048576)", Arc::new(GreedyMemoryPool::new(LIMIT))),
        ("Finite(1048576)", Arc::new(FairSpillPool::new(LIMIT))),
        ("Infinite", Arc::new(UnboundedMemoryPool::default())),
        ("Unknown", Arc::new(PoolOfUnknownLimit)),
    ]
}

fn limit(pool: &dyn MemoryPool) -> String {
    match pool.memory_limit() {
        MemoryLimit::Infinite => "Infinite".to_owned(),
        MemoryLimit::Finite(bytes) => format!("Finite({bytes})"),
        MemoryLimit::Unknown => "Unknown".to_owned(),
    }
}

#[test]
fn limits_come_out_unchanged() {
    for (expected, pool) in pools() {
        assert_eq!(limit(pool.as_ref()), expected);
        let counting = Arc::new(CountingPool::new(pool));
        assert_eq!(limit(counting.as_ref()), expected);
        assert_eq!(limit(counting.scope("query").as_ref()), expected);
    }
}

/// A distinct over 3 values. The consumer that it registers is named after its stream.
fn distinct(mode: AggregateMode) -> Result<AggregateExec> {
    let keys = Arc::new(Int64Array::from(vec![3, 1, 3, 2, 1]));
    let batch = RecordBatch::try_from_iter([("a", keys as _)])?;
    let schema = batch.schema();
    let by = PhysicalGroupBy::new_single(vec![(column("a", &schema), "a".to_owned())]);
    let input = in_memory(&[vec![batch]], Arc::clone(&schema));
    AggregateExec::try_new(mode, by, vec![], vec![], input, schema)
}

async fn run(mode: AggregateMode, pool: Arc<dyn MemoryPool>) -> Result<Vec<i64>> {
    let stream = distinct(mode)?.execute(0, context(SessionConfig::new(), pool))?;
    let batches: Vec<_> = stream.try_collect().await?;
    let mut values: Vec<i64> = batches
        .iter()
        .flat_map(|batch| {
            batch
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        })
        .collect();
    values.sort_unstable();
    Ok(values)
}

#[tokio::test]
async fn an_aggregate_picks_the_same_stream() -> Result<()> {
    for mode in [
        AggregateMode::Partial,
        AggregateMode::PartialReduce,
        AggregateMode::Final,
        AggregateMode::FinalPartitioned,
        AggregateMode::Single,
        AggregateMode::SinglePartitioned,
    ] {
        for (limit, pool) in pools() {
            let bare = Arc::new(RegistrationsPool::new(Arc::clone(&pool)));
            let values = run(mode, bare.clone()).await?;
            assert_eq!(values, [1, 2, 3]);

            let wrapped = Arc::new(RegistrationsPool::new(pool));
            let counting = Arc::new(CountingPool::new(wrapped.clone()));
            assert_eq!(run(mode, counting.clone()).await?, values);
            assert_eq!(wrapped.names(), bare.names(), "{mode:?}, limit {limit}");
            counting.snapshot().assert_everything_released();
        }
    }
    Ok(())
}

/// The mode that branches on the limit today, lest the test above compares equals.
#[tokio::test]
async fn the_stream_depends_on_the_limit() -> Result<()> {
    for (limit, pool) in pools() {
        let counting = Arc::new(CountingPool::new(pool));
        run(AggregateMode::PartialReduce, counting.clone()).await?;
        let expected = match limit {
            "Infinite" | "Unknown" => "PartialReduceHashAggregateStream",
            _ => "GroupedHashAggregateStream",
        };
        let operators = counting.snapshot().by_operator();
        let operators: Vec<_> = operators.iter().map(|row| row.name.as_ref()).collect();
        assert_eq!(operators, [expected], "limit {limit}");
    }
    Ok(())
}
