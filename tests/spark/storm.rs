use std::sync::Arc;
use std::thread;

use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool};

pub(crate) const THREADS: u64 = 8;
pub(crate) const OPERATIONS: u64 = 10_000;
/// Of one operation, in bytes.
pub(crate) const LARGEST: usize = 1000;

/// Eight threads that each grow, try to grow and shrink ten thousand times at random, each with
/// a reservation of its own, and release what is left at the end.
pub(crate) fn storm(pool: &Arc<dyn MemoryPool>) {
    thread::scope(|scope| {
        for seed in 0..THREADS {
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                let reservation = MemoryConsumer::new(format!("storm[{seed}]")).register(pool);
                for _ in 0..OPERATIONS {
                    let bytes = random.usize(0..=LARGEST);
                    match random.u8(0..5) {
                        0 => reservation.grow(bytes),
                        // Either answer will do: what counts is that the books agree.
                        1 | 2 => drop(reservation.try_grow(bytes)),
                        3 => drop(reservation.split(bytes.min(reservation.size()))),
                        _ => reservation.shrink(bytes.min(reservation.size())),
                    }
                }
            });
        }
    });
}
