//! What the threads do.

use std::sync::Arc;

use datafusion_common::DataFusionError;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

const KIB: usize = 1 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    Full,
    Partial,
    Churn,
}

pub(crate) const SCENARIOS: [Scenario; 3] = [Scenario::Full, Scenario::Partial, Scenario::Churn];

/// What one thread did.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) operations: u64,
    pub(crate) short_grants: u64,
    /// Refusals by a limit of the pool's own.
    pub(crate) rejects: u64,
    pub(crate) errors: u64,
}

impl Scenario {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Partial => "partial",
            Self::Churn => "churn",
        }
    }

    /// Bytes of the pool that are to be had.
    pub(crate) fn free(self, pool: usize) -> usize {
        match self {
            Self::Full | Self::Churn => pool,
            Self::Partial => 1024 * KIB,
        }
    }

    /// Makes so many operations, or one more.
    pub(crate) fn run(self, pool: &Arc<dyn MemoryPool>, thread: usize, operations: u32) -> Done {
        let mut random = fastrand::Rng::with_seed(thread as u64);
        let register = || MemoryConsumer::new(format!("bench[{thread}]")).register(pool);
        let mut done = Done::default();
        let lasting = (self != Self::Churn).then(register);
        while done.operations < u64::from(operations) {
            match (self, &lasting) {
                (Self::Partial, Some(reservation)) => {
                    done.pair(reservation, random.usize(1..=33) * 32 * KIB);
                }
                (_, Some(reservation)) => done.pair(reservation, 64 * KIB),
                (_, None) => done.pair(&register(), 64 * KIB),
            }
        }
        done
    }
}

impl Done {
    fn pair(&mut self, reservation: &MemoryReservation, bytes: usize) {
        self.operations += 1;
        match reservation.try_grow(bytes) {
            Ok(()) => {
                self.operations += 1;
                reservation.shrink(bytes);
            }
            Err(DataFusionError::ResourcesExhausted(text)) if text.contains("short grant") => {
                self.short_grants += 1;
            }
            Err(DataFusionError::ResourcesExhausted(_)) => self.rejects += 1,
            Err(_) => self.errors += 1,
        }
    }
}
