//! The shuffle writer and its reader.

#[path = "../support/recording_pool.rs"]
mod recording_pool;

mod cases;
mod figures;
mod files;
mod generate;
mod limits;
mod model;
mod properties;
mod sizes;
mod support;
