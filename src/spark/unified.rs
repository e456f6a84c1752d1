//! How a pool and Spark are kept in step, with no lock held while Spark is called.

use std::mem;
use std::sync::Arc;

use datafusion_common::{DataFusionError, Result};
use log::warn;
use parking_lot::Mutex;

use super::TaskMemory;
use super::ledger::{HandBack, Ledger, Policy};
use super::refusal::Refusal;

/// The ledger's lock. It lends the ledger to a closure, which cannot reach Spark, instead of
/// giving out a guard, which could be held across a call. A trait, so that the tests can check
/// the steps under a scheduler of their own.
pub(super) trait Locked {
    fn new(ledger: Ledger) -> Self;
    fn with<R>(&self, step: impl FnOnce(&mut Ledger) -> R) -> R;
}

impl Locked for Mutex<Ledger> {
    fn new(ledger: Ledger) -> Self {
        Mutex::new(ledger)
    }

    fn with<R>(&self, step: impl FnOnce(&mut Ledger) -> R) -> R {
        step(&mut self.lock())
    }
}

/// What the fair and the greedy pool have in common. Consumers go by their id.
#[derive(Debug)]
pub(super) struct Unified<L = Mutex<Ledger>> {
    memory: Arc<dyn TaskMemory>,
    ledger: L,
}

/// How a `try_grow` can fail.
#[derive(Debug)]
pub(super) enum GrowError {
    Refused(Refusal),
    Failed(DataFusionError),
}

impl<L: Locked> Unified<L> {
    pub(super) fn new(memory: Arc<dyn TaskMemory>, policy: Policy) -> Self {
        Self {
            memory,
            ledger: L::new(Ledger::new(policy)),
        }
    }

    /// Reads the ledger, or enters something that does not concern Spark.
    pub(super) fn with<R>(&self, step: impl FnOnce(&mut Ledger) -> R) -> R {
        self.ledger.with(step)
    }

    pub(super) fn try_grow(&self, consumer: usize, bytes: usize) -> Result<(), GrowError> {
        let mut second_chance = true;
        loop {
            let admission = self
                .with(|ledger| ledger.admit(consumer, bytes))
                .map_err(GrowError::Refused)?;
            let ask = bytes + admission.overcommit;
            let charge = Charge {
                unified: self,
                consumer,
                bytes,
            };
            let granted = self
                .memory
                .acquire(ask)
                .map_err(GrowError::Failed)?
                .min(ask);
            charge.keep();

            if granted == ask {
                let excess = self
                    .with(|ledger| ledger.enter_full_grant(consumer, bytes, admission.overcommit));
                if excess.bytes > 0 && self.hand_back(consumer, excess) {
                    self.with(|ledger| ledger.uncharge(consumer, excess.charged));
                }
                return Ok(());
            }

            let short = self.with(|ledger| ledger.enter_short_grant(consumer, bytes, granted));
            let mut own = 0;
            if granted > 0 && self.hand_back(consumer, short) {
                self.with(|ledger| ledger.enter_return(consumer, short));
                own = granted as u64;
            }
            // Others that were refused may have held, for the moment that takes, just what was
            // missing here.
            let by_others = self.with(|ledger| ledger.returned()) - admission.returned - own;
            if mem::take(&mut second_chance) && by_others >= (ask - granted) as u64 {
                continue;
            }
            return Err(GrowError::Refused(Refusal::ShortGrant {
                held: admission.held,
                granted,
                overcommit: admission.overcommit,
            }));
        }
    }

    /// # Panics
    ///
    /// Panics if the sum of what is reserved would overflow.
    pub(super) fn grow(&self, consumer: usize, bytes: usize) {
        assert!(
            self.with(|ledger| ledger.charge(consumer, bytes)),
            "cannot grow by {bytes} bytes: the sum of what is reserved would overflow"
        );
        let charge = Charge {
            unified: self,
            consumer,
            bytes,
        };
        let answer = match bytes {
            0..=super::MAX_REQUEST => self.memory.acquire(bytes),
            _ => Ok(0),
        };
        charge.keep();
        let granted = match answer {
            Ok(granted) => granted.min(bytes),
            Err(error) => {
                warn!("consumer {consumer} overcommits {bytes} bytes, as Spark failed: {error}");
                0
            }
        };
        self.with(|ledger| ledger.enter_grant(consumer, bytes, granted));
    }

    /// `Err` with the bytes that the consumer holds, where they are fewer than `bytes`.
    pub(super) fn shrink(&self, consumer: usize, bytes: usize) -> Result<(), usize> {
        let due = self.with(|ledger| ledger.begin_release(consumer, bytes))?;
        let due = HandBack {
            bytes: due,
            charged: due,
        };
        if due.bytes > 0 && self.hand_back(consumer, due) {
            self.with(|ledger| ledger.uncharge(consumer, due.charged));
        }
        Ok(())
    }

    /// Whether Spark has the bytes back. Where it has not they stay charged, since it takes
    /// them for used, and the pool's limit must go on counting them.
    fn hand_back(&self, consumer: usize, HandBack { bytes, charged }: HandBack) -> bool {
        self.memory
            .release(bytes)
            .inspect_err(|error| {
                warn!(
                    "{charged} bytes stay charged to consumer {consumer}, \
                     as Spark failed to take {bytes} back: {error}"
                );
            })
            .is_ok()
    }
}

/// Bytes charged for an acquire that has no answer yet. Dropping it takes them off again, after
/// an error as after a panic.
struct Charge<'a, L: Locked> {
    unified: &'a Unified<L>,
    consumer: usize,
    bytes: usize,
}

impl<L: Locked> Charge<'_, L> {
    fn keep(self) {
        mem::forget(self);
    }
}

impl<L: Locked> Drop for Charge<'_, L> {
    fn drop(&mut self) {
        self.unified
            .with(|ledger| ledger.uncharge(self.consumer, self.bytes));
    }
}
