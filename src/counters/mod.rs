//! The atomics of one consumer, and of one pool. They know no consumers and no pool.

mod block;
mod clock;
mod latency;
mod level;
pub(crate) mod sizes;

pub(crate) use block::{AcquireBy, Block};
pub use clock::Clock;
pub(crate) use clock::Timer;
pub(crate) use latency::Latency;
pub(crate) use level::{Level, LevelReading};
