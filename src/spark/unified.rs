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
            let excess =
                self.with(|ledger| ledger.enter_full_grant(consumer, bytes, admission.overcommit));
            self.hand_back(consumer, excess);
            return Ok(());
        }

        // What is on its way back may be just what another acquire misses at that moment. To ask
        // again where that happened was tried on real Spark with up to eight threads, and left
        // out: of 400,000 short grants 0.8 % had missed bytes that others gave back meanwhile, and
        // 0.04 % were granted when asked again. The rest missed what others did hold.
        let short = self.with(|ledger| ledger.enter_short_grant(consumer, bytes, granted));
        self.hand_back(consumer, short);
        Err(GrowError::Refused(Refusal::ShortGrant {
            held: admission.held,
            granted,
            overcommit: admission.overcommit,
        }))
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
        self.hand_back(
            consumer,
            HandBack {
                bytes: due,
                charged: due,
            },
        );
        Ok(())
    }

    /// Gives bytes back to Spark, and takes them off the charge after that. Where Spark does not
    /// take them they stay charged: it has them for used, and the limits must go on counting them.
    fn hand_back(&self, consumer: usize, HandBack { bytes, charged }: HandBack) {
        if bytes == 0 {
            return;
        }
        match self.memory.release(bytes) {
            Ok(()) => self.with(|ledger| ledger.uncharge(consumer, charged)),
            Err(error) => warn!(
                "{charged} bytes stay charged to consumer {consumer}, \
                 as Spark failed to take {bytes} back: {error}"
            ),
        }
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
