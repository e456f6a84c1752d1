//! The shuffle writer and its reader.

#[path = "../support/recording_pool.rs"]
mod recording_pool;

mod cases;
mod corruption;
mod faults;
mod figures;
mod files;
mod generate;
mod limits;
mod memory;
mod model;
mod partitioning;
mod properties;
mod sizes;
mod support;
