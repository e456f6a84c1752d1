//! Who asks an Apache DataFusion `MemoryPool` for memory, how often, for what sizes and at what cost.

mod exhausted;
mod repartition;
mod stepped_reservation;

pub use exhausted::is_resources_exhausted;
pub use repartition::{
    Layout, PartitionBy, PartitionKey, PartitionReader, RepartitionMetrics, Repartitioner,
    RepartitionerBuilder, Shuffle,
};
pub use stepped_reservation::{DEFAULT_STEP, SteppedReservation};
