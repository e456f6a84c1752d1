//! Who asks an Apache DataFusion `MemoryPool` for memory, how often, for what sizes and at what cost.

mod consumers;
mod counters;
mod counting_pool;
mod exhausted;
mod figures;
mod operator_name;
mod repartition;
mod snapshot;
#[cfg(feature = "spark")]
pub mod spark;
mod stepped_reservation;
mod sync;

pub use counters::Clock;
pub use counting_pool::{CountingPool, LeakCheck, NotReleased};
pub use exhausted::is_resources_exhausted;
pub use figures::{
    Acquires, CallTime, Calls, Figures, Histogram, RequestSize, RequestSizes, Requests,
};
pub use operator_name::operator_name;
pub use repartition::{
    PartitionBy, PartitionKey, PartitionReader, RepartitionMetrics, Repartitioner,
    RepartitionerBuilder, Shuffle,
};
pub use snapshot::{ConsumerFigures, Denial, Holder, Intervals, NamedFigures, Snapshot};
pub use stepped_reservation::{DEFAULT_STEP, SteppedReservation};
