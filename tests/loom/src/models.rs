//! The models; each panics where one of its assertions can fail.

use crate::consumers::{Consumers, Reading, Table};
use crate::counters::sizes::SizeCounts;
use crate::counters::{AcquireBy, Block, Level};
use crate::figures::Figures;
use crate::sync::{AtomicU64, Mutex, Ordering::Relaxed};
use loom::thread;
use std::collections::HashMap;
use std::sync::Arc;

/// Checks a model that has too many interleavings for all of them: those with at most two
/// changes of thread at places where none is forced.
fn check_the_likely(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// Runs each closure on a thread of its own, and waits for all.
fn at_once(threads: Vec<Box<dyn FnOnce() + Send>>) {
    let threads: Vec<_> = threads.into_iter().map(thread::spawn).collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Two threads bring the same two sizes.
pub fn sizes_that_fit_are_counted_exactly() {
    loom::model(|| {
        let counts = Arc::new(SizeCounts::default());
        let count = |sizes: [u64; 2]| {
            let counts = Arc::clone(&counts);
            Box::new(move || sizes.into_iter().for_each(|bytes| counts.count(bytes))) as _
        };
        at_once(vec![count([1, 2]), count([2, 1])]);
        let read = counts.read();
        assert!(read.is_exact());
        assert_eq!((read.calls_of(1), read.calls_of(2)), (2, 2));
    });
}

/// 16 sizes are known, of which 1 is the rarest; then there are calls for these sizes at once.
fn replacing(calls: [&'static [u64]; 2]) {
    loom::model(move || {
        let counts = Arc::new(SizeCounts::default());
        let mut truth: HashMap<u64, u64> = HashMap::new();
        let known = (1..=16).chain(2..=16);
        for bytes in known {
            counts.count(bytes);
            *truth.entry(bytes).or_default() += 1;
        }
        for &bytes in calls.into_iter().flatten() {
            *truth.entry(bytes).or_default() += 1;
        }
        at_once(
            calls
                .into_iter()
                .map(|sizes| {
                    let counts = Arc::clone(&counts);
                    Box::new(move || sizes.iter().for_each(|&bytes| counts.count(bytes))) as _
                })
                .collect(),
        );
        let read = counts.read();
        for size in read.iter() {
            let calls = truth[&size.bytes];
            assert!(
                size.calls - size.error <= calls && calls <= size.calls,
                "{calls} of {size:?} in {read:?}"
            );
        }
        for (&bytes, &calls) in &truth {
            let listed = read.iter().any(|size| size.bytes == bytes);
            assert!(
                listed || calls <= read.unlisted_at_most(),
                "{calls} of {bytes} in {read:?}"
            );
        }
    });
}

/// A size is counted while it is replaced.
pub fn a_count_that_strays_to_a_new_size_is_within_the_error() {
    replacing([&[1], &[100]]);
}

/// Two sizes replace the rarest at once.
pub fn two_new_sizes_at_once_keep_their_bounds() {
    replacing([&[100], &[200]]);
}

/// Two threads make room for the same size.
pub fn the_same_new_size_twice_at_once_keeps_its_bounds() {
    replacing([&[100], &[100]]);
}

/// Two threads take and give back.
pub fn a_level_ends_exact_and_its_peak_is_one_that_was() {
    loom::model(|| {
        let level = Arc::new(Level::default());
        let pair = |bytes| {
            let level = Arc::clone(&level);
            Box::new(move || {
                level.raise(bytes);
                assert_eq!(level.lower(bytes), 0);
            }) as _
        };
        at_once(vec![pair(10), pair(100)]);
        assert_eq!(level.reserved(), 0);
        assert!([100, 110].contains(&level.read().peak), "{level:?}");
    });
}

/// Two threads give back more than there is.
pub fn what_is_released_too_much_is_told_apart_to_the_byte() {
    loom::model(|| {
        let level = Arc::new(Level::default());
        let beyond = Arc::new(AtomicU64::new(0));
        level.raise(10);
        let lower = |bytes| {
            let (level, beyond) = (Arc::clone(&level), Arc::clone(&beyond));
            Box::new(move || {
                beyond.fetch_add(level.lower(bytes), Relaxed);
            }) as _
        };
        at_once(vec![lower(8), lower(7)]);
        assert_eq!((level.reserved(), beyond.load(Relaxed)), (0, 5));
    });
}

/// A look-up beside insertions that add levels, and a removal.
pub fn a_number_is_found_while_the_table_grows() {
    loom::model(|| {
        let table: Arc<Table<AtomicU64>> = Arc::new(Table::new(2));
        table.insert(0).unwrap().store(7, Relaxed);
        let (growing, looking) = (Arc::clone(&table), Arc::clone(&table));
        at_once(vec![
            Box::new(move || {
                for number in 1..4 {
                    growing.insert(number).unwrap();
                }
                growing.remove(1, |_| ()).unwrap();
            }),
            Box::new(move || {
                for _ in 0..2 {
                    assert_eq!(looking.get(0).unwrap().load(Relaxed), 7);
                }
            }),
        ]);
        assert!(table.get(1).is_none() && table.get(2).is_some() && table.get(3).is_some());
    });
}

/// A reservation is shared: one thread acquires, another releases, a third reads. All that the
/// second knows of the first is the size, which DataFusion keeps in a relaxed atomic.
pub fn no_more_is_shown_as_released_than_as_acquired() {
    check_the_likely(|| {
        let shared = Arc::new((Block::default(), AtomicU64::new(0)));
        let (acquiring, releasing) = (Arc::clone(&shared), Arc::clone(&shared));
        let threads = [
            thread::spawn(move || {
                let (block, size) = &*acquiring;
                block.granted(AcquireBy::TryGrow, 10);
                size.fetch_add(10, Relaxed);
            }),
            thread::spawn(move || {
                let (block, size) = &*releasing;
                if size.load(Relaxed) == 10 {
                    let not_held = block.releasing(10);
                    block.released(10, not_held);
                }
            }),
        ];
        let read = shared.0.read();
        assert!(
            read.releases.bytes <= read.acquires.acquired_bytes,
            "{read:?}"
        );
        assert!(read.reserved_bytes <= read.peak_bytes, "{read:?}");
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

fn total(reading: &Reading) -> Figures {
    let mut total = reading.strangers.clone();
    for consumer in &reading.live {
        total.add(&consumer.figures);
    }
    for figures in reading.folded.names.values() {
        total.add(figures);
    }
    total
}

/// The life of a consumer, as a pool has it.
fn live(consumers: &Consumers, id: usize, bytes: u64) {
    consumers.register(id, "consumer", true);
    let block: &Block = consumers.block(id);
    block.granted(AcquireBy::TryGrow, bytes);
    let not_held = block.releasing(bytes);
    block.released(bytes, not_held);
    assert_eq!(consumers.unregister(id, "consumer"), 0);
}

/// Two consumers register, count, unregister and are folded while a third thread reads.
pub fn consumers_come_count_and_go_and_nothing_is_lost() {
    check_the_likely(|| {
        let consumers = Arc::new(Consumers::with_first_length(2));
        let (a, b) = (Arc::clone(&consumers), Arc::clone(&consumers));
        let threads = [
            thread::spawn(move || live(&a, 0, 10)),
            thread::spawn(move || live(&b, 2, 100)),
        ];
        let during = total(&consumers.read());
        assert!(
            during.releases.bytes <= during.acquires.acquired_bytes,
            "{during:?}"
        );
        assert!(during.unregistrations <= during.registrations, "{during:?}");
        for thread in threads {
            thread.join().unwrap();
        }
        let reading = consumers.read();
        let after = total(&reading);
        assert!(reading.live.is_empty());
        assert_eq!((after.registrations, after.unregistrations), (2, 2));
        assert_eq!(
            (after.acquires.calls, after.acquires.acquired_bytes),
            (2, 110)
        );
        assert_eq!((after.releases.calls, after.releases.bytes), (2, 110));
        assert_eq!(
            (after.sizes.calls_of(10), after.sizes.calls_of(100)),
            (1, 1)
        );
        assert_eq!((after.reserved_bytes, after.peak_bytes), (0, 100));
    });
}
