//! The unit tests of the example `shuffle`.
//!
//! With `test = true` Cargo would run them where they are, but then `cargo test` would no longer
//! build the program that `shuffle_example.rs` runs.

#![expect(dead_code, reason = "the rest of the example is not here")]

#[path = "../examples/shuffle/cli.rs"]
mod cli;
#[path = "../examples/shuffle/failure.rs"]
mod failure;
#[path = "../examples/shuffle/first_difference.rs"]
mod first_difference;
#[path = "../examples/shuffle/units.rs"]
mod units;
