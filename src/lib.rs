//! DataFusion operators ask a [`MemoryPool`] for memory. In some engines each request is dear,
//! and nobody can see who asks, how often, for what sizes and at what cost. This crate makes
//! that visible, and ships the cure.
//!
//! - [`CountingPool`] wraps any pool and counts, for each consumer: requests, bytes, denials,
//!   releases, and the time inside the calls. Read it as a [`Snapshot`].
//! - [`SteppedReservation`] lets an operator grow its memory in steps, so that it asks less often.
//! - [`Repartitioner`] is a shuffle writer that does so: 13 requests a task instead of 256.
//!
//! # In a unit test
//!
//! ```
//! # use datafusion_common::Result;
//! use datafusion_counting_pool::CountingPool;
//! use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryConsumer};
//! use datafusion_execution::runtime_env::RuntimeEnvBuilder;
//! use std::sync::Arc;
//!
//! # fn run_my_operator(runtime: &datafusion_execution::runtime_env::RuntimeEnv) -> Result<()> {
//! #     let memory = MemoryConsumer::new("MyExec[0]").register(&runtime.memory_pool);
//! #     (0..3).try_for_each(|_| memory.try_grow(1000))
//! # }
//! # fn main() -> Result<()> {
//! let pool = Arc::new(CountingPool::new(Arc::new(GreedyMemoryPool::new(64 << 20))));
//! let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool.clone()).build_arc()?;
//! run_my_operator(&runtime)?;
//!
//! let counts = pool.snapshot();
//! assert_eq!(counts.operator("MyExec").acquires.calls, 3);
//! counts.assert_nothing_denied();
//! counts.assert_everything_released();
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! - `metrics`, on by default: [`Registry`] publishes the figures of pools through the
//!   [`metrics`](https://docs.rs/metrics/0.24) facade.
//! - `prometheus`: `PrometheusServer` serves them to Prometheus, in one call. Brings `serde`.
//! - `serde`: [`Snapshot`] and what it holds implement `serde::Serialize`.
//! - `spark`: pools over the task memory of Apache Spark. No JVM is needed for it.
//! - `testing`: `FaultPool` denies, fails, panics or parks the calls of one's choice.
//!
//! [`MemoryPool`]: datafusion_execution::memory_pool::MemoryPool

mod consumers;
mod counters;
mod counting_pool;
mod exhausted;
#[cfg(feature = "testing")]
mod fault_pool;
mod figures;
mod operator_name;
#[cfg(feature = "metrics")]
mod publish;
mod repartition;
mod snapshot;
#[cfg(feature = "spark")]
pub mod spark;
mod stepped_reservation;
mod sync;

pub use counters::Clock;
pub use counting_pool::{CountingPool, LeakCheck, NotReleased};
pub use exhausted::is_resources_exhausted;
#[cfg(feature = "testing")]
pub use fault_pool::{Fault, FaultPool, Parked, PoolCall, PoolMethod};
pub use figures::{
    Acquires, CallTime, Calls, Figures, Histogram, RequestSize, RequestSizes, Requests,
};
pub use operator_name::operator_name;
#[cfg(feature = "prometheus")]
pub use publish::{PrometheusServer, PrometheusServerBuilder, PrometheusServerError};
#[cfg(feature = "metrics")]
pub use publish::{Registry, RegistryBuilder, RegistryInstalled};
pub use repartition::{
    Layout, PartitionBy, PartitionKey, PartitionReader, RepartitionMetrics, Repartitioner,
    RepartitionerBuilder, Shuffle,
};
pub use snapshot::{ConsumerFigures, Denial, Holder, Intervals, NamedFigures, Snapshot};
pub use stepped_reservation::{DEFAULT_STEP, SteppedReservation};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
