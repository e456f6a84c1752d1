//! What a counting pool should show, computed the plain way: one step after the other, with
//! everything kept for ever.

use crate::Wrong;
use crate::support::{Asked, Counted, NAMES, Op};
use datafusion_counting_pool::PoolMethod;

/// What goes wrong, by the number of the call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) acquires: Vec<Option<Wrong>>,
    pub(crate) releases: Vec<Option<Wrong>>,
}

impl Faults {
    pub(crate) fn of(&self, method: PoolMethod, number: u64) -> Option<Wrong> {
        let (faults, fallible) = match method {
            PoolMethod::TryGrow => (&self.acquires, true),
            PoolMethod::Grow => (&self.acquires, false),
            PoolMethod::Shrink => (&self.releases, false),
        };
        let wrong = faults.get(number as usize - 1).copied().flatten();
        wrong.filter(|&wrong| fallible || wrong == Wrong::Panic)
    }
}

/// What came of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Failed,
    Panicked,
    /// There was no reservation to do it with.
    Nothing,
}

/// `Err` is what it ended in.
type Step = Result<(), Outcome>;

#[derive(Clone, Debug)]
pub(crate) struct Consumer {
    pub(crate) id: usize,
    /// Index in [`NAMES`].
    pub(crate) name: usize,
    pub(crate) can_spill: bool,
    /// Reservations that it still has.
    reservations: usize,
    pub(crate) counted: Counted,
}

impl Consumer {
    pub(crate) fn is_registered(&self) -> bool {
        self.reservations > 0
    }
}

/// `(number, consumer's id, asked, held, holders as (id, held))`
pub(crate) type Denied = (u64, usize, u64, u64, Vec<(usize, u64)>);

#[derive(Debug)]
pub(crate) struct Model {
    limit: usize,
    faults: Faults,
    /// What the wrapped pool holds.
    used: usize,
    acquires: u64,
    releases: u64,
    pub(crate) consumers: Vec<Consumer>,
    /// Consumer and size.
    reservations: Vec<(usize, usize)>,
    pub(crate) peak: u64,
    pub(crate) denials: Vec<Denied>,
    last_outcome: Outcome,
}

impl Model {
    pub(crate) fn new(limit: usize, faults: Faults) -> Self {
        Self {
            limit,
            faults,
            used: 0,
            acquires: 0,
            releases: 0,
            consumers: Vec::new(),
            reservations: Vec::new(),
            peak: 0,
            denials: Vec::new(),
            last_outcome: Outcome::Nothing,
        }
    }

    pub(crate) fn last_outcome(&self) -> Outcome {
        self.last_outcome
    }

    pub(crate) fn used(&self) -> usize {
        self.used
    }

    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.reservations.iter().map(|&(_, size)| size).collect()
    }

    pub(crate) fn reserved(&self) -> u64 {
        let held = self
            .consumers
            .iter()
            .map(|consumer| consumer.counted.reserved);
        held.sum()
    }

    /// `new_id` is the id of the consumer that the operation registered, if it is one that does.
    pub(crate) fn play(&mut self, op: Op, new_id: usize) {
        self.last_outcome = match self.run(op, new_id) {
            Ok(()) => Outcome::Done,
            Err(outcome) => outcome,
        };
    }

    fn run(&mut self, op: Op, new_id: usize) -> Step {
        if let Op::Register(name, can_spill) = op {
            let counted = Counted {
                registrations: 1,
                unspillable: u64::from(!can_spill),
                ..Counted::default()
            };
            self.consumers.push(Consumer {
                id: new_id,
                name,
                can_spill,
                reservations: 1,
                counted,
            });
            self.reservations.push((self.consumers.len() - 1, 0));
            return Ok(());
        }
        if self.reservations.is_empty() {
            return Err(Outcome::Nothing);
        }
        let at = op.at() % self.reservations.len();
        let (consumer, size) = self.reservations[at];
        match op {
            Op::Register(..) => unreachable!("done above"),
            Op::NewEmpty(_) => {
                self.sibling(at, 0);
                Ok(())
            }
            Op::Split(_, bytes) => {
                // Cannot split more than there is.
                (bytes <= size)
                    .then(|| self.sibling(at, bytes))
                    .ok_or(Outcome::Panicked)
            }
            Op::Take(_) => {
                self.sibling(at, size);
                Ok(())
            }
            Op::Drop(_) => {
                self.reservations.remove(at);
                let released = if size > 0 {
                    self.release(consumer, size)
                } else {
                    Ok(())
                };
                let consumer = &mut self.consumers[consumer];
                consumer.reservations -= 1;
                consumer.counted.unregistrations += u64::from(consumer.reservations == 0);
                released
            }
            Op::Grow(_, bytes) => self.grow(at, bytes, false),
            Op::TryGrow(_, bytes) => self.grow(at, bytes, true),
            Op::Shrink(_, bytes) if bytes > size => Err(Outcome::Panicked),
            Op::TryShrink(_, bytes) if bytes > size => Err(Outcome::Failed),
            Op::Shrink(_, bytes) | Op::TryShrink(_, bytes) => self.shrink(at, bytes),
            Op::Resize(_, bytes) if bytes > size => self.grow(at, bytes - size, false),
            Op::TryResize(_, bytes) if bytes > size => self.grow(at, bytes - size, true),
            Op::Resize(_, bytes) | Op::TryResize(_, bytes) if bytes == size => Ok(()),
            Op::Resize(_, bytes) | Op::TryResize(_, bytes) => self.shrink(at, size - bytes),
            Op::Free(_) if size == 0 => Ok(()),
            Op::Free(_) => self.shrink(at, size),
            Op::PoolGrow(_, bytes) => self.acquire(consumer, bytes, false),
            Op::PoolTryGrow(_, bytes) => self.acquire(consumer, bytes, true),
            Op::PoolShrink(_, bytes) => self.release(consumer, bytes),
        }
    }

    /// Moves so many bytes into a new reservation of the same consumer.
    fn sibling(&mut self, at: usize, bytes: usize) {
        let (consumer, size) = &mut self.reservations[at];
        *size -= bytes;
        let consumer = *consumer;
        self.consumers[consumer].reservations += 1;
        self.reservations.push((consumer, bytes));
    }

    fn grow(&mut self, at: usize, bytes: usize, fallible: bool) -> Step {
        self.acquire(self.reservations[at].0, bytes, fallible)?;
        self.reservations[at].1 += bytes;
        Ok(())
    }

    /// The reservation takes the bytes off before it asks the pool.
    fn shrink(&mut self, at: usize, bytes: usize) -> Step {
        self.reservations[at].1 -= bytes;
        self.release(self.reservations[at].0, bytes)
    }

    fn acquire(&mut self, consumer: usize, bytes: usize, fallible: bool) -> Step {
        let fits = !fallible || self.used + bytes <= self.limit;
        let counted = &mut self.consumers[consumer].counted;
        if bytes == 0 {
            counted.zero_byte_calls += 1;
            return if fits { Ok(()) } else { Err(Outcome::Failed) };
        }
        self.acquires += 1;
        let asked = bytes as u64;
        let (method, requests) = if fallible {
            (PoolMethod::TryGrow, &mut counted.try_grow)
        } else {
            (PoolMethod::Grow, &mut counted.grow)
        };
        let Asked(calls, asked_bytes, acquired_bytes) = requests;
        *calls += 1;
        *asked_bytes += asked;
        *counted.sizes.entry(asked).or_default() += 1;
        let wrong = self.faults.of(method, self.acquires);
        if wrong == Some(Wrong::Panic) {
            counted.panicked += 1;
            return Err(Outcome::Panicked);
        }
        took(&mut counted.acquire_nanos, asked);
        if wrong == Some(Wrong::Fail) {
            counted.failed += 1;
            return Err(Outcome::Failed);
        }
        if wrong == Some(Wrong::Deny) || !fits {
            counted.denied.0 += 1;
            counted.denied.1 += asked;
            self.record_denial(consumer, asked);
            return Err(Outcome::Failed);
        }
        *acquired_bytes += asked;
        counted.reserved += asked;
        counted.peak = counted.peak.max(counted.reserved);
        self.used += bytes;
        self.peak = self.peak.max(self.reserved());
        Ok(())
    }

    fn release(&mut self, consumer: usize, bytes: usize) -> Step {
        let counted = &mut self.consumers[consumer].counted;
        if bytes == 0 {
            counted.zero_byte_calls += 1;
            return Ok(());
        }
        self.releases += 1;
        if self.faults.of(PoolMethod::Shrink, self.releases).is_some() {
            counted.releases_panicked += 1;
            return Err(Outcome::Panicked);
        }
        let asked = bytes as u64;
        let held = asked.min(counted.reserved);
        counted.releases.0 += 1;
        counted.releases.1 += held;
        if held < asked {
            counted.anomalies.0 += 1;
            counted.anomalies.1 += asked - held;
        }
        counted.reserved -= held;
        took(&mut counted.release_nanos, asked);
        self.used = self.used.saturating_sub(bytes);
        Ok(())
    }

    fn record_denial(&mut self, consumer: usize, asked: u64) {
        let registered = self
            .consumers
            .iter()
            .filter(|consumer| consumer.is_registered());
        let mut holders: Vec<_> = registered
            .filter(|consumer| consumer.counted.reserved > 0)
            .map(|consumer| (consumer.id, consumer.counted.reserved))
            .collect();
        // Of equally large ones the older consumer comes first.
        holders.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        holders.truncate(3);
        let who = &self.consumers[consumer];
        let number = self.denials.len() as u64 + 1;
        let denied = (number, who.id, asked, who.counted.reserved, holders);
        self.denials.push(denied);
    }
}

/// The wrapped pool takes as many nanoseconds as the call is about bytes.
fn took((total, longest): &mut (u64, u64), nanos: u64) {
    *total += nanos;
    *longest = (*longest).max(nanos);
}

/// The operators of [`NAMES`].
pub(crate) const OPERATORS: [&str; NAMES.len()] = ["Sort", "Sort", "Join", "plain", "unnamed"];
