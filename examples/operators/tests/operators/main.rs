//! What the crate promises for DataFusion's own operators.

mod memory_limit;
mod partitions;
mod small_pool;
mod support;
mod unpolled_output;
