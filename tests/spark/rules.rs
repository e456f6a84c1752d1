//! What Spark does, one rule a case.

use std::thread;

use datafusion_counting_pool::spark::JavaThrowable;

use crate::subject::Stage;

const MB: i64 = 1_000_000;
const MIB: i64 = 1 << 20;

pub(crate) fn a_lone_task_gets_what_there_is(stage: &Stage) {
    let executor = stage.executor(1024 * MB);
    let task = executor.task(7);
    assert_eq!(executor.active_tasks(), []);
    assert_eq!(task.acquire_once(600 * MB), Ok(600 * MB));
    assert_eq!(task.acquire_once(600 * MB), Ok(424 * MB));
    assert_eq!(task.acquire_once(600 * MB), Ok(0));
    assert_eq!(executor.active_tasks(), [(7, 1024 * MB)]);
    task.release_once(1000 * MB);
    assert_eq!(task.balance(), 24 * MB);
    assert_eq!(task.clean_up(), 24 * MB);
    assert_eq!(executor.active_tasks(), []);
    assert_eq!(task.clean_up(), 0);
}

pub(crate) fn two_tasks_get_half_each_and_a_byte_makes_a_task_active(stage: &Stage) {
    let executor = stage.executor(1000);
    let (first, second) = (executor.task(1), executor.task(2));
    assert_eq!(second.acquire_once(1), Ok(1));
    assert_eq!(first.acquire_once(600), Ok(500));
    assert_eq!(first.acquire_once(1), Ok(0));
    assert_eq!(second.acquire_once(600), Ok(499));
    second.release_once(500);
    // Alone again, the first one may have it all.
    assert_eq!(first.acquire_once(600), Ok(500));
    assert_eq!(executor.active_tasks(), [(1, 1000)]);
}

pub(crate) fn a_task_that_was_granted_nothing_is_active_all_the_same(stage: &Stage) {
    let executor = stage.executor(1);
    let (first, second) = (executor.task(1), executor.task(2));
    assert_eq!(first.acquire_once(1), Ok(1));
    // Half of an even share of one byte is none, so there is nothing to wait for.
    assert_eq!(second.acquire_once(1), Ok(0));
    assert_eq!(executor.active_tasks(), [(1, 1), (2, 0)]);
    assert_eq!(second.clean_up(), 0);
    assert_eq!(executor.active_tasks(), [(1, 1)]);
}

pub(crate) fn a_request_that_is_not_positive_fails_an_assertion(stage: &Stage) {
    let executor = stage.executor(1000);
    let task = executor.task(1);
    for (bytes, message) in [
        (0, "assertion failed: invalid number of bytes requested: 0"),
        (-1, "assertion failed"),
        (i64::MIN, "assertion failed"),
    ] {
        let thrown = task.acquire_once(bytes).unwrap_err();
        assert_eq!(thrown.class, "java.lang.AssertionError");
        assert_eq!(thrown.message.as_deref(), Some(message));
        assert!(!thrown.is_missing_task_entry());
    }
    assert_eq!(executor.active_tasks(), []);
}

pub(crate) fn a_release_of_more_than_there_is_releases_what_there_is(stage: &Stage) {
    let executor = stage.executor(1000);
    let task = executor.task(1);
    task.release_once(10);
    assert_eq!(executor.active_tasks(), []);
    assert_eq!(task.acquire_once(100), Ok(100));
    task.release_once(101);
    assert_eq!((task.balance(), executor.active_tasks()), (0, vec![]));
    assert_eq!(task.acquire_once(1000), Ok(1000));
}

pub(crate) fn a_negative_release_books_bytes_where_some_are_held(stage: &Stage) {
    let executor = stage.executor(1000);
    let task = executor.task(1);
    task.release_once(-5);
    assert_eq!(executor.active_tasks(), []);
    assert_eq!(task.acquire_once(100), Ok(100));
    task.release_once(-5);
    assert_eq!(executor.active_tasks(), [(1, 105)]);
}

pub(crate) fn the_largest_request_is_answered_like_any_other(stage: &Stage) {
    let task = stage.executor(1000).task(1);
    assert_eq!(task.acquire_once(i64::MAX), Ok(1000));
    assert_eq!(task.acquire_once(i64::MAX), Ok(0));
}

pub(crate) fn a_task_below_its_minimum_is_parked_until_it_fits(stage: &Stage) {
    let executor = stage.executor(1000);
    let (other, task) = (executor.task(1), executor.task(2));
    assert_eq!(other.acquire_once(900), Ok(900));
    thread::scope(|scope| {
        // Half of an even share is 250. With 100 free, 101 are not to be had.
        let parked = scope.spawn(|| task.acquire_once(101));
        executor.wait_for_parked(1);
        assert_eq!(executor.active_tasks(), [(1, 900), (2, 0)]);
        other.release_once(1);
        assert_eq!(parked.join().unwrap(), Ok(101));
        // 150 more would make 251 of the minimum of 250. It has to wait for 149 of them.
        let parked = scope.spawn(|| task.acquire_once(150));
        executor.wait_for_parked(1);
        other.release_once(148);
        executor.wait_for_parked(1);
        other.release_once(1);
        assert_eq!(parked.join().unwrap(), Ok(149));
    });
    assert_eq!(executor.active_tasks(), [(1, 750), (2, 250)]);
}

pub(crate) fn the_minimum_is_not_met_while_one_byte_is_held_back(stage: &Stage) {
    let executor = stage.executor(1024 * MIB);
    let (other, task) = (executor.task(1), executor.task(2));
    assert_eq!(other.acquire_once(924 * MIB), Ok(924 * MIB));
    assert_eq!(task.acquire_once(100 * MIB), Ok(100 * MIB));
    thread::scope(|scope| {
        let parked = scope.spawn(|| task.acquire(100 << 20));
        executor.wait_for_parked(1);
        task.release_once(100 * MIB - 1);
        executor.wait_for_parked(1);
        assert_eq!(executor.active_tasks(), [(1, 924 * MIB), (2, 1)]);
        task.release_once(1);
        assert_eq!(parked.join().unwrap().unwrap(), 100 << 20);
    });
}

pub(crate) fn an_acquire_whose_entry_goes_while_parked_is_not_found(stage: &Stage) {
    let executor = stage.executor(100);
    let (other, task) = (executor.task(1), executor.task(42));
    assert_eq!(other.acquire_once(90), Ok(90));
    assert_eq!(task.acquire_once(10), Ok(10));
    thread::scope(|scope| {
        let parked = scope.spawn(|| task.acquire_once(10));
        executor.wait_for_parked(1);
        task.release_once(10);
        let thrown: JavaThrowable = parked.join().unwrap().unwrap_err();
        assert_eq!(thrown.class, "java.util.NoSuchElementException");
        assert_eq!(thrown.message.as_deref(), Some("key not found: 42"));
        assert!(thrown.is_missing_task_entry(), "{thrown:?}");
    });
    assert_eq!(executor.active_tasks(), [(1, 90)]);
    // Asked again, it is the first thing that the task asks for.
    assert_eq!(task.acquire_once(10), Ok(10));
}

pub(crate) fn a_task_memory_asks_again_where_the_entry_went(stage: &Stage) {
    let executor = stage.executor(100);
    let (other, task) = (executor.task(1), executor.task(42));
    assert_eq!(other.acquire(90).unwrap(), 90);
    assert_eq!(task.acquire(10).unwrap(), 10);
    thread::scope(|scope| {
        let parked = scope.spawn(|| task.acquire(10));
        executor.wait_for_parked(1);
        task.release(10).unwrap();
        assert_eq!(parked.join().unwrap().unwrap(), 10);
    });
    task.release(10).unwrap();
    assert_eq!(executor.active_tasks(), [(1, 90)]);
}

pub(crate) fn an_interrupt_while_parked_leaves_the_task_active_with_nothing(stage: &Stage) {
    let executor = stage.executor(100);
    let (other, task) = (executor.task(1), executor.task(2));
    assert_eq!(other.acquire_once(95), Ok(95));
    thread::scope(|scope| {
        let parked = scope.spawn(|| task.acquire_once(10));
        executor.wait_for_parked(1);
        executor.interrupt(2);
        let thrown = parked.join().unwrap().unwrap_err();
        assert_eq!(
            (thrown.class.as_str(), thrown.message.as_deref()),
            ("java.lang.InterruptedException", None)
        );
        assert!(!thrown.is_missing_task_entry());
    });
    assert_eq!(executor.active_tasks(), [(1, 95), (2, 0)]);
    assert_eq!(task.clean_up(), 0);
    assert_eq!(executor.active_tasks(), [(1, 95)]);
}

pub(crate) fn a_task_that_becomes_active_wakes_those_who_are_parked(stage: &Stage) {
    let executor = stage.executor(1000);
    let (first, second, third) = (executor.task(1), executor.task(2), executor.task(3));
    assert_eq!(first.acquire_once(780), Ok(780));
    thread::scope(|scope| {
        // 220 are free. With two tasks the minimum is 250; with three it is 166.
        let parked = scope.spawn(|| second.acquire_once(300));
        executor.wait_for_parked(1);
        assert_eq!(third.acquire_once(1), Ok(1));
        assert_eq!(parked.join().unwrap(), Ok(219));
    });
}

pub(crate) fn one_acquire_of_a_task_is_parked_at_a_time_and_releases_pass_it(stage: &Stage) {
    let executor = stage.executor(100);
    let (other, task) = (executor.task(1), executor.task(2));
    assert_eq!(other.acquire_once(85), Ok(85));
    assert_eq!(task.acquire_once(10), Ok(10));
    thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| task.acquire_once(10)));
        executor.wait_for_parked(1);
        task.release_once(1);
        assert_eq!(
            (task.balance(), executor.active_tasks()),
            (9, vec![(1, 85), (2, 9)])
        );
        other.release_once(14);
        assert_eq!(
            both.map(|acquire| acquire.join().unwrap()),
            [Ok(10), Ok(10)]
        );
    });
    assert_eq!(executor.active_tasks(), [(1, 71), (2, 29)]);
}

pub(crate) fn a_short_grant_makes_the_tasks_consumers_spill(stage: &Stage) {
    let executor = stage.executor(1000);
    let task = executor.task(1);
    let [large, small, stubborn] = [500, 50, 0].map(|bytes| task.jvm_consumer(bytes));
    assert_eq!(large.acquire(500), Ok(500));
    assert_eq!(small.acquire(100), Ok(100));
    assert_eq!(stubborn.acquire(300), Ok(300));
    let spills = || [&large, &small, &stubborn].map(|consumer| consumer.spills());

    // 100 are free. That they are enough is no reason to spill.
    assert_eq!((task.acquire_once(40), spills()), (Ok(40), [0, 0, 0]));
    // 60 are free and 90 missing. The smallest that has them is asked, twice.
    assert_eq!((task.acquire_once(150), spills()), (Ok(150), [0, 2, 0]));
    assert_eq!((small.used(), executor.active_tasks()), (0, vec![(1, 990)]));
    // 250 are missing. The stubborn one has enough, but gives nothing.
    assert_eq!((task.acquire_once(260), spills()), (Ok(260), [1, 2, 1]));
    assert_eq!((large.used(), executor.active_tasks()), (0, vec![(1, 750)]));
    // Everybody else has nothing left to give.
    assert_eq!((task.acquire_once(300), spills()), (Ok(250), [1, 2, 2]));
    assert_eq!(executor.active_tasks(), [(1, 1000)]);
}

pub(crate) fn a_consumer_that_asks_spills_itself_last(stage: &Stage) {
    let executor = stage.executor(1000);
    let task = executor.task(1);
    let (asking, other) = (task.jvm_consumer(1000), task.jvm_consumer(1000));
    assert_eq!(asking.acquire(600), Ok(600));
    assert_eq!(other.acquire(400), Ok(400));
    assert_eq!(asking.acquire(300), Ok(300));
    assert_eq!((asking.spills(), other.spills()), (0, 1));
    assert_eq!((asking.used(), other.used()), (900, 0));
    // Alone, it is told to spill what it has itself.
    assert_eq!(asking.acquire(500), Ok(500));
    assert_eq!((asking.spills(), asking.used()), (1, 500));
    asking.release(500);
    assert_eq!(executor.active_tasks(), []);
}

pub(crate) use crate::subject::model;

/// Hands the names of all rules to a macro that makes tests of them.
macro_rules! for_each_rule {
    ($tests:ident) => {
        $tests! {
            rules:
            a_lone_task_gets_what_there_is
            two_tasks_get_half_each_and_a_byte_makes_a_task_active
            a_task_that_was_granted_nothing_is_active_all_the_same
            a_request_that_is_not_positive_fails_an_assertion
            a_release_of_more_than_there_is_releases_what_there_is
            a_negative_release_books_bytes_where_some_are_held
            the_largest_request_is_answered_like_any_other
            a_task_below_its_minimum_is_parked_until_it_fits
            the_minimum_is_not_met_while_one_byte_is_held_back
            an_acquire_whose_entry_goes_while_parked_is_not_found
            a_task_memory_asks_again_where_the_entry_went
            an_interrupt_while_parked_leaves_the_task_active_with_nothing
            a_task_that_becomes_active_wakes_those_who_are_parked
            one_acquire_of_a_task_is_parked_at_a_time_and_releases_pass_it
            a_short_grant_makes_the_tasks_consumers_spill
            a_consumer_that_asks_spills_itself_last
        }
    };
}
pub(crate) use for_each_rule;
