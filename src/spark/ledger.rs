//! What a pool has on its books. Each method is one step under the ledger's lock, and none of
//! them can reach Spark.

use datafusion_common::HashMap;

use super::refusal::Refusal;

/// Who may have how much.
#[derive(Clone, Copy, Debug)]
pub(super) enum Policy {
    /// Each consumer an even share of `pool_size`, all of them together `pool_size`.
    Fair { pool_size: usize },
    /// As much as Spark grants.
    Greedy,
}

/// The books of one pool.
///
/// At rest, what Spark holds for the task is the sum of what the consumers hold, less the
/// [overcommit](Self::overcommitted). While calls are on their way Spark may hold more than
/// that, but never more than is charged, save for the moment between Spark's answer and the step
/// that enters it.
#[derive(Debug)]
pub(super) struct Ledger {
    policy: Policy,
    accounts: HashMap<usize, Account>,
    registered: usize,
    charged: usize,
    overcommitted: usize,
}

/// One consumer: all reservations with its id, be they made by `register`, `new_empty`, `split`
/// or `take`.
#[derive(Debug, Default)]
struct Account {
    registered: bool,
    /// What counts against the limits: the bytes held, those that Spark is being asked for and
    /// those that are on their way back to Spark.
    charged: usize,
    /// What the reservations have and can give up.
    held: usize,
}

/// That a `try_grow` passed the limits and is charged.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Admission {
    /// What the consumer had on the books before.
    pub(super) held: usize,
    /// Overcommitted bytes that it is to ask Spark for besides its own.
    pub(super) overcommit: usize,
}

/// Bytes that Spark granted and nobody can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HandBack {
    /// What Spark is to have back.
    pub(super) bytes: usize,
    /// What is charged until it has.
    pub(super) charged: usize,
}

impl Ledger {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            policy,
            accounts: HashMap::new(),
            registered: 0,
            charged: 0,
            overcommitted: 0,
        }
    }

    /// Consumers that are registered.
    pub(super) fn consumers(&self) -> usize {
        self.registered
    }

    /// Bytes charged, of all consumers.
    pub(super) fn charged(&self) -> usize {
        self.charged
    }

    /// Bytes that the consumers hold and Spark did not grant.
    pub(super) fn overcommitted(&self) -> usize {
        self.overcommitted
    }

    pub(super) fn charged_to(&self, consumer: usize) -> usize {
        self.accounts
            .get(&consumer)
            .map_or(0, |account| account.charged)
    }

    pub(super) fn register(&mut self, consumer: usize) {
        let account = self.accounts.entry(consumer).or_default();
        if !account.registered {
            account.registered = true;
            self.registered += 1;
        }
    }

    /// Bytes that the consumer leaves behind stay charged, since Spark still holds them, and can
    /// still be released.
    pub(super) fn unregister(&mut self, consumer: usize) {
        if let Some(account) = self.accounts.get_mut(&consumer)
            && account.registered
        {
            account.registered = false;
            self.registered -= 1;
            self.close_if_done(consumer);
        }
    }

    /// Charges `bytes` if the limits allow it.
    pub(super) fn admit(&mut self, consumer: usize, bytes: usize) -> Result<Admission, Refusal> {
        let charged = self.charged_to(consumer);
        if let Policy::Fair { pool_size } = self.policy {
            let consumers = self.registered.max(1);
            let share = pool_size / consumers;
            if charged.checked_add(bytes).is_none_or(|sum| sum > share) {
                return Err(Refusal::FairShare {
                    held: charged,
                    share,
                    pool_size,
                    consumers,
                });
            }
            if self
                .charged
                .checked_add(bytes)
                .is_none_or(|sum| sum > pool_size)
            {
                return Err(Refusal::PoolLimit {
                    held: charged,
                    used: self.charged,
                    pool_size,
                });
            }
        }
        let fits = |sum: Option<usize>| sum.is_some_and(|sum| sum <= super::MAX_REQUEST);
        if !fits(bytes.checked_add(self.overcommitted)) || !fits(self.charged.checked_add(bytes)) {
            return Err(Refusal::TooLarge { held: charged });
        }
        self.add_charge(consumer, bytes);
        Ok(Admission {
            held: charged,
            overcommit: self.overcommitted,
        })
    }

    /// Charges `bytes` whatever the limits are. `false`, and nothing done, where the sum would
    /// overflow.
    pub(super) fn charge(&mut self, consumer: usize, bytes: usize) -> bool {
        let fits = self.charged.checked_add(bytes).is_some();
        if fits {
            self.add_charge(consumer, bytes);
        }
        fits
    }

    /// Takes `bytes` that are not held off the charge.
    pub(super) fn uncharge(&mut self, consumer: usize, bytes: usize) {
        if let Some(account) = self.accounts.get_mut(&consumer) {
            account.charged -= bytes;
            self.charged -= bytes;
            self.close_if_done(consumer);
        }
    }

    /// A `try_grow` has everything it asked for: the charged `bytes` are held, and what was
    /// granted for the overcommit repays it. Returns what of the grant is no longer needed,
    /// because others have repaid meanwhile.
    pub(super) fn enter_full_grant(
        &mut self,
        consumer: usize,
        bytes: usize,
        for_overcommit: usize,
    ) -> HandBack {
        let excess = for_overcommit - self.repay(for_overcommit);
        self.hold(consumer, bytes);
        // The sum overflows only where somebody has grown by more than all memory there is.
        let charged = if self.charge(consumer, excess) {
            excess
        } else {
            0
        };
        HandBack {
            bytes: excess,
            charged,
        }
    }

    /// A `grow` has its answer: the charged `bytes` are held, and what is missing from the grant
    /// is overcommitted.
    pub(super) fn enter_grant(&mut self, consumer: usize, bytes: usize, granted: usize) {
        self.hold(consumer, bytes);
        self.overcommitted += bytes - granted;
    }

    /// A `try_grow` of `bytes` is to be refused because Spark granted only `granted`. What
    /// Spark does not hold comes off the charge.
    pub(super) fn enter_short_grant(
        &mut self,
        consumer: usize,
        bytes: usize,
        granted: usize,
    ) -> HandBack {
        // It may be more than `bytes`, where it was for overcommit as well.
        let charged = granted.min(bytes);
        self.uncharge(consumer, bytes - charged);
        HandBack {
            bytes: granted,
            charged,
        }
    }

    /// Takes `bytes` out of what the consumer holds, repays overcommit with them and returns
    /// the rest, which belongs to Spark and is charged until Spark has it. `Err` with the bytes
    /// held, and nothing done, where they are fewer.
    pub(super) fn begin_release(&mut self, consumer: usize, bytes: usize) -> Result<usize, usize> {
        let held = self
            .accounts
            .get(&consumer)
            .map_or(0, |account| account.held);
        match self.accounts.get_mut(&consumer) {
            Some(account) if bytes <= account.held => account.held -= bytes,
            _ => return Err(held),
        }
        let repaid = self.repay(bytes);
        self.uncharge(consumer, repaid);
        Ok(bytes - repaid)
    }

    /// One atomic step with what follows from it: two releases never repay the same bytes.
    fn repay(&mut self, at_most: usize) -> usize {
        let repaid = self.overcommitted.min(at_most);
        self.overcommitted -= repaid;
        repaid
    }

    fn add_charge(&mut self, consumer: usize, bytes: usize) {
        self.accounts.entry(consumer).or_default().charged += bytes;
        self.charged += bytes;
    }

    fn hold(&mut self, consumer: usize, bytes: usize) {
        self.accounts.entry(consumer).or_default().held += bytes;
    }

    fn close_if_done(&mut self, consumer: usize) {
        if let Some(account) = self.accounts.get(&consumer)
            && !account.registered
            && account.charged == 0
        {
            self.accounts.remove(&consumer);
        }
    }
}
