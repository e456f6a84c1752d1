//! The primitives that the lock-free parts are built from. They stand in one place so that a
//! model checker can put its own under the very same code.

pub(crate) use once_cell::sync::OnceCell;
pub(crate) use parking_lot::Mutex;
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
