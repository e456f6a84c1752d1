//! A shuffle writer on a [`SteppedReservation`](crate::SteppedReservation), and the reader of what
//! it writes.

mod allocations;
mod batch;
mod buffer;
mod builder;
mod compact;
mod data_file;
mod decoder;
mod dictionaries;
mod gather;
mod layout;
mod messages;
mod metrics;
mod partition_by;
mod partitioner;
mod parts;
mod repartitioner;
mod selection;
mod shuffle;
mod spill;
mod types;
mod unifier;
mod writer;

pub use builder::RepartitionerBuilder;
pub use layout::Layout;
pub use metrics::RepartitionMetrics;
pub use partition_by::{PartitionBy, PartitionKey};
pub use repartitioner::Repartitioner;
pub use shuffle::{PartitionReader, Shuffle};
