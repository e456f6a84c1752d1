//! Every figure against a plain sequential model, over random sequences of every operation of a
//! pool and of a reservation, on a pool that denies, fails and panics.

#[path = "../support/mod.rs"]
mod support;

mod sequential;
mod view;

use datafusion_common::plan_datafusion_err;
use datafusion_counting_pool::{CountingPool, Fault, FaultPool};
use proptest::collection::vec;
use proptest::prelude::*;
use sequential::{Faults, Model, Outcome};
use std::sync::Arc;
use support::{ForgivingPool, ManualClock, Op, Player, any_op};
use view::View;

const LIMIT: usize = 600;

/// What goes wrong in one acquire or release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Deny,
    Fail,
    Panic,
}

fn any_faults() -> impl Strategy<Value = Faults> {
    let wrong = prop_oneof![
        12 => Just(None),
        1 => Just(Some(Wrong::Deny)),
        1 => Just(Some(Wrong::Fail)),
        1 => Just(Some(Wrong::Panic)),
    ];
    (vec(wrong.clone(), 60), vec(wrong, 60))
        .prop_map(|(acquires, releases)| Faults { acquires, releases })
}

/// A pool in which calls go wrong as planned, each after as many nanoseconds as it is about
/// bytes.
fn faulty(faults: Faults, clock: Arc<ManualClock>) -> FaultPool {
    FaultPool::new(Arc::new(ForgivingPool::new(LIMIT))).with_fault(move |call| {
        clock.advance(call.bytes as u64);
        faults
            .of(call.method, call.number)
            .map(|wrong| match wrong {
                Wrong::Deny => Fault::Deny,
                Wrong::Fail => Fault::Fail(plan_datafusion_err!("planned")),
                Wrong::Panic => Fault::Panic,
            })
    })
}

/// The counting pool and one around it: all calls go through both.
fn nested(faults: Faults) -> (Arc<CountingPool>, Arc<CountingPool>) {
    let clock = Arc::new(ManualClock::default());
    let inner = Arc::new(faulty(faults, Arc::clone(&clock)));
    let outer = Arc::new(CountingPool::new(inner).with_clock(clock));
    let scope = outer.scope("scope");
    (outer, scope)
}

/// Compares after every operation, and after those that are marked the interval since the mark
/// before as well.
fn check(ops: &[(Op, bool)], faults: &Faults) {
    let (sessions, scope) = nested(faults.clone());
    let mut player = Player::new(Arc::clone(&scope) as _);
    let mut model = Model::new(LIMIT, faults.clone());
    let mut earlier = (sessions.snapshot(), View::of_model(&model));
    for &(op, mark) in ops {
        let told = player.play(op);
        let last = player.reservations.last();
        model.play(op, last.map_or(usize::MAX, |last| last.consumer().id()));
        let happened = match told.as_str() {
            told if told.starts_with("ok") => Outcome::Done,
            told if told.starts_with("panic") => Outcome::Panicked,
            "registered" => Outcome::Done,
            "nobody there" => Outcome::Nothing,
            _ => Outcome::Failed,
        };
        assert_eq!(happened, model.last_outcome(), "{op:?}: {told}");
        let sizes: Vec<_> = player.reservations.iter().map(|r| r.size()).collect();
        assert_eq!(sizes, model.sizes(), "after {op:?}");
        assert_eq!(player.pool.reserved(), model.used(), "after {op:?}");

        let snapshot = sessions.snapshot();
        let expected = View::of_model(&model);
        assert_eq!(View::of(&snapshot), expected, "after {op:?}: {told}");
        if mark {
            assert_eq!(View::of(&scope.snapshot()), expected, "in the scope");
            let difference = View::of(&snapshot.since(&earlier.0));
            assert_eq!(
                difference.without_longest_of_sums(),
                expected.since(&earlier.1).without_longest_of_sums(),
                "in the interval, after {op:?}"
            );
            earlier = (snapshot, expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_figure_is_that_of_the_model(
        ops in vec((any_op(), prop::bool::weighted(0.2)), 1..120),
        faults in any_faults(),
    ) {
        check(&ops, &faults);
    }

    #[test]
    fn and_where_nothing_goes_wrong(
        ops in vec((any_op(), prop::bool::weighted(0.2)), 1..120),
    ) {
        check(&ops, &Faults::default());
    }
}
