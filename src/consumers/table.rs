//! From a number to a value, found without a lock.

use crate::sync::{
    AtomicUsize, OnceCell,
    Ordering::{Acquire, Release},
};

/// Slots looked at in each level.
const PROBES: usize = 4;
/// With the lengths of [`Table::length_of`] this is more than any memory holds.
const LEVELS: usize = 64;

/// A table of levels, each a fixed array of slots. A key is placed at its number modulo the
/// level's length, or in one of the three slots after, in the newest level that has room; where
/// none has, a level is added, half as large as all before it. Numbers that were given out one
/// after another fill it almost without a gap.
///
/// Looking up touches no lock and moves nothing. Inserting and removing is for one thread at a
/// time: the caller holds a lock. Values stay where they are and are used again, so what a
/// removed value holds has to be cleared first.
#[derive(Debug)]
pub(crate) struct Table<T> {
    levels: [OnceCell<Box<[Slot<T>]>>; LEVELS],
    in_use: AtomicUsize,
    first_length: usize,
}

/// Begins at a cache line, so that consumers on two threads do not slow each other down.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Slot<T> {
    value: T,
    /// The number plus one; 0 is a free slot.
    key: AtomicUsize,
}

impl<T: Default> Table<T> {
    /// `first_length` has to be a power of two, and at least 2.
    pub(crate) fn new(first_length: usize) -> Self {
        debug_assert!(first_length.is_power_of_two() && first_length > 1);
        Self {
            levels: std::array::from_fn(|_| OnceCell::new()),
            in_use: AtomicUsize::new(0),
            first_length,
        }
    }

    /// 64, 32, 32, 64, 64, 128, 128 and so on: powers of two, and never more than half as much
    /// again as there was.
    fn length_of(&self, level: usize) -> usize {
        match level {
            0 => self.first_length,
            _ => (self.first_length / 2) << ((level - 1) / 2),
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        self.slot(number).map(|slot| &slot.value)
    }

    #[inline]
    fn slot(&self, number: usize) -> Option<&Slot<T>> {
        self.probes(number)
            .find(|slot| slot.key.load(Acquire) == key_of(number))
    }

    /// Where the number may be, newest level first.
    #[inline]
    fn probes(&self, number: usize) -> impl Iterator<Item = &Slot<T>> {
        let in_use = self.in_use.load(Acquire);
        self.levels[..in_use].iter().rev().flat_map(move |level| {
            let slots = level.get().map_or(&[][..], |slots| slots);
            (0..PROBES.min(slots.len()))
                .map(move |probe| &slots[number.wrapping_add(probe) & (slots.len() - 1)])
        })
    }

    /// Places the number, which must not be in the table. `None` where the table can grow no
    /// more.
    pub(crate) fn insert(&self, number: usize) -> Option<&T> {
        if let Some(slot) = self.probes(number).find(|slot| slot.key.load(Acquire) == 0) {
            slot.key.store(key_of(number), Release);
            return Some(&slot.value);
        }
        let level = self.in_use.load(Acquire);
        let length = self.length_of(level);
        let slots = self.levels.get(level)?.get_or_init(|| {
            (0..length)
                .map(|_| Slot {
                    value: T::default(),
                    key: AtomicUsize::new(0),
                })
                .collect()
        });
        self.in_use.store(level + 1, Release);
        let slot = &slots[number & (length - 1)];
        slot.key.store(key_of(number), Release);
        Some(&slot.value)
    }

    /// Takes the number out, after `clear` has made its value as good as new.
    pub(crate) fn remove<R>(&self, number: usize, clear: impl FnOnce(&T) -> R) -> Option<R> {
        let slot = self.slot(number)?;
        let cleared = clear(&slot.value);
        slot.key.store(0, Release);
        Some(cleared)
    }
}

fn key_of(number: usize) -> usize {
    number.wrapping_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::AtomicU64;
    use std::collections::HashMap;
    use std::sync::atomic::Ordering::Relaxed;

    fn capacity<T>(table: &Table<T>) -> usize {
        table
            .levels
            .iter()
            .filter_map(|level| level.get())
            .map(|slots| slots.len())
            .sum()
    }

    #[test]
    fn finds_what_was_inserted_and_nothing_else() {
        // Against a plain map: consecutive numbers, gaps, and far apart ones; every third goes
        // again, and later ones take the room.
        let table: Table<AtomicU64> = Table::new(64);
        let mut model = HashMap::new();
        let numbers = (0..1_000)
            .chain((5_000..9_000).step_by(7))
            .chain((0..40).map(|i| i << 20));
        for (i, number) in numbers.enumerate() {
            table.insert(number).unwrap().store(number as u64, Relaxed);
            model.insert(number, number as u64);
            if i % 3 == 0 {
                let gone = *model.keys().next().unwrap();
                let taken = table.remove(gone, |value| value.swap(0, Relaxed));
                assert_eq!(taken, model.remove(&gone));
            }
        }
        for number in 0..10_000 {
            let found = table.get(number).map(|value| value.load(Relaxed));
            assert_eq!(found, model.get(&number).copied(), "{number}");
        }
    }

    #[test]
    fn consecutive_numbers_leave_at_most_half_as_many_slots_empty() {
        let table: Table<AtomicU64> = Table::new(64);
        for number in 3..10_003 {
            table.insert(number).unwrap();
        }
        assert!(capacity(&table) <= 15_000, "{}", capacity(&table));
    }

    #[test]
    fn slots_are_used_again() {
        let table: Table<AtomicU64> = Table::new(64);
        for number in 0..1_000_000 {
            table.insert(number).unwrap();
            table.remove(number, |_| ()).unwrap();
        }
        assert_eq!(capacity(&table), 64);
    }
}
