//! A stepped reservation asks the pool less often, and never for more than it would have got.

use std::sync::Arc;

use datafusion_common::{DataFusionError, Result};
use datafusion_counting_pool::{DEFAULT_STEP, SteppedReservation, is_resources_exhausted};
use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, UnboundedMemoryPool};

#[path = "support/recording_pool.rs"]
#[expect(dead_code, reason = "shared with other tests, which use the rest")]
mod recording_pool;

use recording_pool::Call::{Forced, Granted, Refused, Released};
use recording_pool::RecordingPool;

fn stepped(pool: &Arc<RecordingPool>) -> SteppedReservation {
    SteppedReservation::new(MemoryConsumer::new("test").register(&pool.as_pool()))
}

fn greedy(limit: usize) -> Arc<RecordingPool> {
    RecordingPool::new(GreedyMemoryPool::new(limit))
}

#[test]
fn the_pool_is_asked_for_the_deficit_or_a_step_whichever_is_more() -> Result<()> {
    let pool = RecordingPool::unbounded();
    let mut memory = stepped(&pool).with_step(100);

    memory.try_charge(1)?; // deficit 1: a step
    memory.try_charge(99)?; // fits the slack
    assert_eq!(
        (memory.size(), memory.reserved(), memory.slack()),
        (100, 100, 0)
    );
    memory.try_charge(250)?; // deficit 250: no rounding up to 300
    assert_eq!((memory.size(), memory.reserved()), (350, 350));
    memory.try_charge(100)?; // deficit and step are the same
    memory.try_charge(0)?;
    assert_eq!(pool.calls(), [Granted(100), Granted(250), Granted(100)]);
    assert_eq!(memory.acquisitions(), 3);
    Ok(())
}

#[test]
fn the_default_step_is_a_mebibyte() -> Result<()> {
    let pool = RecordingPool::unbounded();
    let mut memory = stepped(&pool);
    memory.try_charge(1)?;
    assert_eq!(DEFAULT_STEP, 1_048_576);
    assert_eq!(pool.calls(), [Granted(1_048_576)]);
    Ok(())
}

#[test]
fn a_step_of_nothing_is_exact_growth() -> Result<()> {
    let pool = RecordingPool::unbounded();
    let mut memory = stepped(&pool).with_step(0);
    for bytes in [10, 20, 0, 30] {
        memory.try_charge(bytes)?;
        assert_eq!(memory.slack(), 0);
    }
    memory.shrink(15);
    drop(memory);
    assert_eq!(
        pool.calls(),
        [
            Granted(10),
            Granted(20),
            Granted(30),
            Released(15),
            Released(45)
        ]
    );
    Ok(())
}

#[test]
fn a_limit_bounds_the_step_to_an_eighth() -> Result<()> {
    for (limit, step) in [
        (None, 100),
        (Some(10_000), 100),
        (Some(80), 10),
        (Some(8), 1),
        (Some(7), 0),
        (Some(0), 0),
    ] {
        let memory = stepped(&RecordingPool::unbounded())
            .with_step(100)
            .with_limit(limit);
        assert_eq!(memory.step(), step, "{limit:?}");
    }
    // In either order.
    let memory = stepped(&RecordingPool::unbounded())
        .with_limit(Some(80))
        .with_step(100);
    assert_eq!(memory.step(), 10);
    Ok(())
}

#[test]
fn denied_a_step_it_asks_for_the_deficit() -> Result<()> {
    let pool = greedy(150);
    let mut memory = stepped(&pool).with_step(100);
    memory.try_charge(60)?;
    memory.try_charge(60)?; // deficit 20; 100 + 100 is too much, 100 + 20 is not
    memory.try_grow(20)?;
    assert_eq!(
        pool.calls(),
        [
            Granted(100),
            Refused(100),
            Granted(20),
            Refused(100),
            Granted(20)
        ]
    );
    assert_eq!((memory.size(), memory.reserved()), (140, 140));
    Ok(())
}

#[test]
fn a_deficit_of_a_step_or_more_is_asked_for_once() {
    for deficit in [100, 101] {
        let pool = greedy(99);
        let mut memory = stepped(&pool).with_step(100);
        let denied = memory.try_charge(deficit).unwrap_err();
        assert!(is_resources_exhausted(&denied), "{denied}");
        assert_eq!(pool.calls(), [Refused(deficit)]);
    }
}

#[test]
fn a_charge_counts_whatever_the_answer() {
    let pool = greedy(150);
    let mut memory = stepped(&pool).with_step(10);
    memory.try_charge(100).unwrap();
    let denied = memory.try_charge(70).unwrap_err();
    assert!(is_resources_exhausted(&denied), "{denied}");
    assert_eq!(
        (
            memory.size(),
            memory.reserved(),
            memory.unreserved(),
            memory.slack()
        ),
        (170, 100, 70, 0)
    );

    // The next one asks for what is missing too.
    memory.try_charge(5).unwrap_err();
    assert_eq!((memory.size(), memory.unreserved()), (175, 75));
    memory.shrink(30);
    memory.try_charge(1).unwrap();
    assert_eq!((memory.size(), memory.unreserved()), (146, 0));
    assert_eq!(
        pool.calls(),
        [Granted(100), Refused(70), Refused(75), Granted(46)]
    );
    assert_eq!(memory.free(), 146);
    assert_eq!(pool.released(), [146]);
}

#[test]
fn a_growth_that_fails_changes_nothing() {
    let pool = greedy(150);
    let mut memory = stepped(&pool).with_step(10);
    memory.try_grow(100).unwrap();
    memory.try_grow(70).unwrap_err();
    memory.try_resize(171).unwrap_err();
    assert_eq!((memory.size(), memory.reserved()), (100, 100));
    memory.try_grow(50).unwrap();
    assert_eq!((memory.size(), memory.reserved()), (150, 150));
}

#[test]
fn only_a_denial_is_asked_about_again() {
    let failing = |error: fn() -> DataFusionError| {
        let pool =
            RecordingPool::with_answer(UnboundedMemoryPool::default(), move |_, _| Some(error()));
        let mut memory = stepped(&pool).with_step(100);
        let charged = memory.try_charge(10).unwrap_err().to_string();
        let grown = memory.try_grow(10).unwrap_err().to_string();
        assert_eq!((memory.size(), memory.reserved()), (10, 0));
        (pool.calls(), charged, grown)
    };

    let (calls, charged, grown) =
        failing(|| DataFusionError::Execution("no ResourcesExhausted".into()));
    assert_eq!(calls, [Refused(100), Refused(100)]);
    assert_eq!(charged, "Execution error: no ResourcesExhausted");
    assert_eq!(grown, charged);

    let wrapped =
        || DataFusionError::External(Box::new(DataFusionError::ResourcesExhausted("full".into())));
    let (calls, charged, _) = failing(wrapped);
    assert_eq!(
        calls,
        [Refused(100), Refused(10), Refused(100), Refused(20)]
    );
    assert!(charged.contains("full"), "{charged}");

    // The answer to the second question is the one that counts.
    let pool = RecordingPool::with_answer(UnboundedMemoryPool::default(), |number, _| {
        Some(match number {
            0 => DataFusionError::ResourcesExhausted("full".into()),
            _ => DataFusionError::Execution("broken".into()),
        })
    });
    let error = stepped(&pool).with_step(100).try_charge(10).unwrap_err();
    assert_eq!(error.to_string(), "Execution error: broken");
}

#[test]
fn infallible_growth_forces_no_more_than_the_deficit() {
    let pool = greedy(150);
    let mut memory = stepped(&pool).with_step(100);
    memory.grow(30); // a step is to be had
    memory.grow(100); // a step is not; 100 + 30 is
    memory.grow(100); // beyond the limit: forced all the same
    assert_eq!((memory.size(), memory.reserved()), (230, 230));
    memory.grow(0);
    assert_eq!(
        pool.calls(),
        [Granted(100), Refused(100), Forced(30), Forced(100)]
    );
}

#[test]
fn shrinking_keeps_at_most_a_step_of_slack() {
    let pool = RecordingPool::unbounded();
    let mut memory = stepped(&pool).with_step(100);
    memory.grow(1000);
    memory.shrink(60);
    memory.shrink(40);
    assert_eq!((memory.size(), memory.slack()), (900, 100));
    assert_eq!(memory.try_shrink(1).unwrap(), 899);
    assert_eq!(memory.slack(), 50); // 101 were too many; half a step is kept
    memory.grow(50);
    memory.shrink(100);
    memory.try_resize(849).unwrap();
    memory.resize(849);
    memory.resize(0);
    assert_eq!((memory.size(), memory.reserved()), (0, 50));
    // 1000 - 51 = 949 are reserved, and 850 - 0 are used when the size goes to 0.
    assert_eq!(pool.calls(), [Forced(1000), Released(51), Released(899)]);

    let error = memory.try_shrink(1).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("Cannot free 1 bytes out of the 0 bytes in use"),
        "{error}"
    );
    assert_eq!((memory.size(), memory.reserved()), (0, 50));
}

#[test]
#[should_panic(expected = "Cannot free 11 bytes out of the 10 bytes in use")]
fn shrinking_below_nothing_panics() {
    let mut memory = stepped(&RecordingPool::unbounded());
    memory.grow(10);
    memory.shrink(11);
}

#[test]
fn resizing_goes_both_ways() -> Result<()> {
    let pool = RecordingPool::unbounded();
    let mut memory = stepped(&pool).with_step(0);
    memory.try_resize(10)?;
    memory.resize(15);
    memory.try_resize(15)?;
    memory.try_resize(4)?;
    memory.resize(3);
    assert_eq!(memory.size(), 3);
    assert_eq!(
        pool.calls(),
        [Granted(10), Forced(5), Released(11), Released(1)]
    );
    Ok(())
}

#[test]
fn freeing_is_one_call_and_tells_of_no_slack() -> Result<()> {
    let pool = RecordingPool::unbounded();
    let mut memory = stepped(&pool).with_step(100);
    for _ in 0..3 {
        memory.try_charge(90)?;
    }
    assert_eq!(memory.free(), 270);
    assert_eq!((memory.size(), memory.reserved()), (0, 0));
    assert_eq!(memory.free(), 0);
    drop(memory);
    assert_eq!(pool.released(), [300]);
    Ok(())
}

#[test]
fn dropping_releases() -> Result<()> {
    let pool = RecordingPool::unbounded();
    let mut memory = stepped(&pool);
    memory.try_charge(1)?;
    drop(memory);
    assert_eq!(pool.as_pool().reserved(), 0);
    assert_eq!(
        pool.calls(),
        [Granted(DEFAULT_STEP), Released(DEFAULT_STEP)]
    );
    Ok(())
}

#[test]
fn siblings_share_consumer_and_options_and_nothing_else() -> Result<()> {
    let pool = RecordingPool::unbounded();
    let mut memory = stepped(&pool).with_step(100).with_limit(Some(400));
    memory.try_charge(120)?;
    let mut sibling = memory.new_empty();
    assert_eq!(sibling.consumer().id(), memory.consumer().id());
    assert_eq!(
        (sibling.size(), sibling.reserved(), sibling.step()),
        (0, 0, 50)
    );
    sibling.try_charge(1)?;
    memory.free();
    assert_eq!((sibling.size(), sibling.reserved()), (1, 50));
    Ok(())
}

#[test]
fn splitting_and_taking_call_nobody() -> Result<()> {
    let pool = RecordingPool::unbounded();
    let mut memory = stepped(&pool).with_step(100);
    memory.try_charge(70)?;
    let part = memory.split(30);
    assert_eq!((memory.size(), memory.reserved()), (40, 70));
    assert_eq!((part.size(), part.reserved()), (30, 30));
    let all = memory.take();
    assert_eq!((memory.size(), memory.reserved()), (0, 0));
    assert_eq!((all.size(), all.reserved()), (40, 70));
    assert_eq!(pool.calls(), [Granted(100)]);
    drop((memory, part, all));
    assert_eq!(pool.as_pool().reserved(), 0);
    Ok(())
}

#[test]
fn what_is_reserved_already_counts_as_used() {
    let pool = RecordingPool::unbounded();
    let reservation = MemoryConsumer::new("test").register(&pool.as_pool());
    reservation.grow(33);
    let memory = SteppedReservation::new(reservation);
    assert_eq!((memory.size(), memory.slack()), (33, 0));
}

#[test]
fn no_total_is_above_isize_max() {
    const MAX: usize = isize::MAX as usize;
    let pool = RecordingPool::unbounded();
    let mut memory = stepped(&pool).with_step(100);
    memory.try_charge(10).unwrap();

    for n in [MAX, MAX - 9, usize::MAX] {
        let error = memory.try_grow(n).unwrap_err();
        assert!(is_resources_exhausted(&error), "{error}");
        assert!(
            error.to_string().contains("more than isize::MAX"),
            "{error}"
        );
        assert_eq!((memory.size(), memory.reserved()), (10, 100));
    }
    assert_eq!(pool.calls(), [Granted(100)]);

    // A step is cut where it would go beyond.
    memory.try_grow(MAX - 20).unwrap();
    assert_eq!((memory.size(), memory.reserved()), (MAX - 10, MAX - 10));
    memory.try_grow(1).unwrap();
    assert_eq!(pool.calls()[1..], [Granted(MAX - 110), Granted(10)]);

    let error = memory.try_charge(10).unwrap_err();
    assert!(is_resources_exhausted(&error), "{error}");
    assert_eq!((memory.size(), memory.unreserved()), (MAX, 0));
    memory.grow(1);
    assert_eq!((memory.size(), memory.reserved()), (MAX, MAX));
    assert_eq!(pool.calls().len(), 3);
}
