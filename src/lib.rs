//! Who asks an Apache DataFusion `MemoryPool` for memory, how often, for what sizes and at what cost.

mod consumers;
mod counters;
mod counting_pool;
mod exhausted;
#[cfg(feature = "testing")]
mod fault_pool;
mod figures;
mod operator_name;
mod snapshot;
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
pub use snapshot::{ConsumerFigures, Denial, Holder, Intervals, NamedFigures, Snapshot};
