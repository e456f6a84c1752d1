//! Random calls, one at a time, against figures worked out apart.

use std::sync::Arc;

use datafusion_counting_pool::is_resources_exhausted;
use datafusion_counting_pool::spark::ExecutionMemoryModel;
use datafusion_execution::memory_pool::{MemoryPool, MemoryReservation};
use proptest::prelude::*;

use crate::{Fair, fair, register};

const LARGEST: usize = 200;

#[derive(Clone, Debug)]
enum Step {
    Register,
    Unregister(usize),
    Grow(usize, usize),
    TryGrow(usize, usize),
    Shrink(usize, usize),
    MoveLimit(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = || prop_oneof![4 => 0..LARGEST, 1 => Just(0), 1 => Just(usize::MAX)];
    let step = prop_oneof![
        1 => Just(Step::Register),
        1 => any::<usize>().prop_map(Step::Unregister),
        3 => (any::<usize>(), 0..LARGEST).prop_map(|(who, bytes)| Step::Grow(who, bytes)),
        6 => (any::<usize>(), bytes()).prop_map(|(who, bytes)| Step::TryGrow(who, bytes)),
        4 => (any::<usize>(), 0..LARGEST).prop_map(|(who, bytes)| Step::Shrink(who, bytes)),
        1 => (0..4 * LARGEST).prop_map(Step::MoveLimit),
    ];
    proptest::collection::vec(step, 1..80)
}

/// The rules in so many words: one figure for what Spark holds, one for each consumer.
struct Expected {
    pool_size: usize,
    limit_of_spark: usize,
    held_by_spark: usize,
    consumers: Vec<usize>,
}

impl Expected {
    fn reserved(&self) -> usize {
        self.consumers.iter().sum()
    }

    fn overcommitted(&self) -> usize {
        self.reserved() - self.held_by_spark
    }

    fn free_in_spark(&self) -> usize {
        self.limit_of_spark.saturating_sub(self.held_by_spark)
    }

    fn try_grow(&mut self, who: usize, bytes: usize) -> bool {
        let share = self.pool_size / self.consumers.len();
        let granted = bytes == 0
            || (bytes <= self.pool_size
                && self.consumers[who] + bytes <= share
                && self.reserved() + bytes <= self.pool_size
                && bytes + self.overcommitted() <= self.free_in_spark());
        if granted && bytes > 0 {
            self.consumers[who] += bytes;
            self.held_by_spark = self.reserved();
        }
        granted
    }

    fn grow(&mut self, who: usize, bytes: usize) {
        self.held_by_spark += bytes.min(self.free_in_spark());
        self.consumers[who] += bytes;
    }

    fn shrink(&mut self, who: usize, bytes: usize) {
        self.held_by_spark -= bytes - bytes.min(self.overcommitted());
        self.consumers[who] -= bytes;
    }
}

fn check(pool_size: usize, limit_of_spark: usize, steps: Vec<Step>) {
    let spark = ExecutionMemoryModel::strict(limit_of_spark as i64);
    let pool: Fair = fair(&Arc::new(spark.task(1)), pool_size);
    let mut expected = Expected {
        pool_size,
        limit_of_spark,
        held_by_spark: 0,
        consumers: Vec::new(),
    };
    let mut reservations: Vec<MemoryReservation> = Vec::new();
    for step in steps {
        let one_of = |who: usize| who.checked_rem(reservations.len());
        match step {
            Step::Register => {
                reservations.push(register(&pool, "consumer"));
                expected.consumers.push(0);
            }
            Step::Unregister(who) => {
                if let Some(who) = one_of(who) {
                    expected.shrink(who, reservations[who].size());
                    expected.consumers.remove(who);
                    reservations.remove(who);
                }
            }
            Step::Grow(who, bytes) => {
                if let Some(who) = one_of(who) {
                    reservations[who].grow(bytes);
                    expected.grow(who, bytes);
                }
            }
            Step::TryGrow(who, bytes) => {
                if let Some(who) = one_of(who) {
                    let answer = reservations[who].try_grow(bytes);
                    assert_eq!(answer.is_ok(), expected.try_grow(who, bytes), "{answer:?}");
                    assert!(
                        answer
                            .err()
                            .is_none_or(|error| is_resources_exhausted(&error))
                    );
                }
            }
            Step::Shrink(who, bytes) => {
                if let Some(who) = one_of(who) {
                    let bytes = bytes.min(reservations[who].size());
                    reservations[who].shrink(bytes);
                    expected.shrink(who, bytes);
                }
            }
            Step::MoveLimit(bytes) => {
                spark.set_pool_bytes(bytes as i64);
                expected.limit_of_spark = bytes;
            }
        }
        let sizes: Vec<usize> = reservations.iter().map(MemoryReservation::size).collect();
        assert_eq!(sizes, expected.consumers);
        assert_eq!(pool.reserved(), expected.reserved());
        assert_eq!(pool.overcommitted(), expected.overcommitted());
        assert_eq!(spark.balance(1), expected.held_by_spark as i64);
    }
    drop(reservations);
    assert_eq!(
        (pool.reserved(), pool.overcommitted(), spark.balance(1)),
        (0, 0, 0)
    );
}

proptest! {
    #[test]
    fn books_and_spark_agree_after_every_step(
        pool_size in 0..4 * LARGEST,
        limit_of_spark in 0..4 * LARGEST,
        steps in steps(),
    ) {
        check(pool_size, limit_of_spark, steps);
    }
}
