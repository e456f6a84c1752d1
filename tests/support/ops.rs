//! Every operation of a pool and of a reservation, as a value, so that sequences of them can be
//! made at random and run over any pool.

use super::quietly;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use proptest::prelude::*;
use std::sync::Arc;

/// The first field is the reservation, counted modulo those there are; the second is bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A consumer of one of [`NAMES`], which can spill or cannot.
    Register(usize, bool),
    NewEmpty(usize),
    Split(usize, usize),
    Take(usize),
    Drop(usize),
    Grow(usize, usize),
    TryGrow(usize, usize),
    Shrink(usize, usize),
    TryShrink(usize, usize),
    Resize(usize, usize),
    TryResize(usize, usize),
    Free(usize),
    /// These three go past the reservation, which keeps its size.
    PoolGrow(usize, usize),
    PoolTryGrow(usize, usize),
    PoolShrink(usize, usize),
}

pub(crate) const NAMES: [&str; 5] = ["Sort[0]", "Sort[1]", "Join (a < b)", "plain", ""];

/// Operations on multiples of ten bytes, up to 150, so that no more than 15 sizes are asked for.
pub(crate) fn any_op() -> impl Strategy<Value = Op> {
    let at = 0..64_usize;
    let bytes = prop_oneof![1 => Just(0), 12 => (1..=15_usize).prop_map(|tens| tens * 10)];
    let both = (at.clone(), bytes);
    prop_oneof![
        3 => (0..NAMES.len(), any::<bool>()).prop_map(|(name, spill)| Op::Register(name, spill)),
        1 => at.clone().prop_map(Op::NewEmpty),
        1 => both.clone().prop_map(|(at, bytes)| Op::Split(at, bytes)),
        1 => at.clone().prop_map(Op::Take),
        2 => at.clone().prop_map(Op::Drop),
        3 => both.clone().prop_map(|(at, bytes)| Op::Grow(at, bytes)),
        6 => both.clone().prop_map(|(at, bytes)| Op::TryGrow(at, bytes)),
        2 => both.clone().prop_map(|(at, bytes)| Op::Shrink(at, bytes)),
        2 => both.clone().prop_map(|(at, bytes)| Op::TryShrink(at, bytes)),
        2 => both.clone().prop_map(|(at, bytes)| Op::Resize(at, bytes)),
        3 => both.clone().prop_map(|(at, bytes)| Op::TryResize(at, bytes)),
        2 => at.prop_map(Op::Free),
        1 => both.clone().prop_map(|(at, bytes)| Op::PoolGrow(at, bytes)),
        1 => both.clone().prop_map(|(at, bytes)| Op::PoolTryGrow(at, bytes)),
        1 => both.prop_map(|(at, bytes)| Op::PoolShrink(at, bytes)),
    ]
}

/// Runs operations over a pool.
pub(crate) struct Player {
    pub(crate) pool: Arc<dyn MemoryPool>,
    pub(crate) reservations: Vec<MemoryReservation>,
}

impl Player {
    pub(crate) fn new(pool: Arc<dyn MemoryPool>) -> Self {
        Self {
            pool,
            reservations: Vec::new(),
        }
    }

    /// Gives what came of it, as a text: a value, an error or a panic. Does nothing where there
    /// is no reservation to do it with.
    pub(crate) fn play(&mut self, op: Op) -> String {
        quietly(|| self.run(op)).unwrap_or_else(|panic| format!("panic: {}", panic.message))
    }

    fn run(&mut self, op: Op) -> String {
        let Self { pool, reservations } = self;
        if let Op::Register(name, can_spill) = op {
            let consumer = MemoryConsumer::new(NAMES[name]).with_can_spill(can_spill);
            reservations.push(consumer.register(pool));
            return "registered".into();
        }
        if reservations.is_empty() {
            return "nobody there".into();
        }
        let index = op.at() % reservations.len();
        let reservation = &mut reservations[index];
        let result = match op {
            Op::Register(..) => unreachable!("done above"),
            Op::NewEmpty(_) => {
                let new = reservation.new_empty();
                reservations.push(new);
                Ok(0)
            }
            Op::Split(_, bytes) => {
                let split = reservation.split(bytes);
                reservations.push(split);
                Ok(bytes)
            }
            Op::Take(_) => {
                let taken = reservation.take();
                reservations.push(taken);
                Ok(0)
            }
            Op::Drop(_) => {
                drop(reservations.remove(index));
                Ok(0)
            }
            Op::Grow(_, bytes) => {
                reservation.grow(bytes);
                Ok(0)
            }
            Op::TryGrow(_, bytes) => reservation.try_grow(bytes).map(|()| 0),
            Op::Shrink(_, bytes) => {
                reservation.shrink(bytes);
                Ok(0)
            }
            Op::TryShrink(_, bytes) => reservation.try_shrink(bytes),
            Op::Resize(_, bytes) => {
                reservation.resize(bytes);
                Ok(0)
            }
            Op::TryResize(_, bytes) => reservation.try_resize(bytes).map(|()| 0),
            Op::Free(_) => Ok(reservation.free()),
            Op::PoolGrow(_, bytes) => {
                pool.grow(reservation, bytes);
                Ok(0)
            }
            Op::PoolTryGrow(_, bytes) => pool.try_grow(reservation, bytes).map(|()| 0),
            Op::PoolShrink(_, bytes) => {
                pool.shrink(reservation, bytes);
                Ok(0)
            }
        };
        match result {
            Ok(bytes) => format!("ok {bytes}"),
            Err(error) => error.strip_backtrace(),
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        for reservation in self.reservations.drain(..) {
            let _ = quietly(|| drop(reservation));
        }
    }
}

impl Op {
    /// The reservation it is for, before it is taken modulo their number.
    pub(crate) fn at(self) -> usize {
        match self {
            Self::Register(at, _)
            | Self::NewEmpty(at)
            | Self::Split(at, _)
            | Self::Take(at)
            | Self::Drop(at)
            | Self::Grow(at, _)
            | Self::TryGrow(at, _)
            | Self::Shrink(at, _)
            | Self::TryShrink(at, _)
            | Self::Resize(at, _)
            | Self::TryResize(at, _)
            | Self::Free(at)
            | Self::PoolGrow(at, _)
            | Self::PoolTryGrow(at, _)
            | Self::PoolShrink(at, _) => at,
        }
    }
}
