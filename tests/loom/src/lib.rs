//! Model checks of the lock-free parts of `datafusion-counting-pool`: every interleaving of a
//! few threads, and every value that a relaxed load may see.
#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the models use a part of each file"
)]
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "the files are documented in their own crate"
)]

#[path = "../../../src/consumers/mod.rs"]
mod consumers;
#[path = "../../../src/counters/mod.rs"]
mod counters;
#[path = "../../../src/figures/mod.rs"]
mod figures;
#[path = "../../../src/operator_name.rs"]
mod operator_name;
mod sync;

pub mod models;
