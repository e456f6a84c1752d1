//! A shuffle writer on a [`SteppedReservation`](crate::SteppedReservation), and the reader of what it writes.

mod allocations;
mod buffer;
mod data_file;
mod gather;
mod messages;
mod metrics;
mod partition_by;
mod partitioner;
mod repartitioner;
mod shuffle;
mod spill;

pub use metrics::RepartitionMetrics;
pub use partition_by::{PartitionBy, PartitionKey};
pub use repartitioner::{Repartitioner, RepartitionerBuilder};
pub use shuffle::{PartitionReader, Shuffle};
