//! The unhappy path: what is counted when the wrapped pool denies, fails or panics.

mod support;

use datafusion_common::{DataFusionError, Result};
use datafusion_counting_pool::{CountingPool, Fault, FaultPool};
use datafusion_execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use support::{Asked, Counted, RegisterHook, caught, counted, quietly, raw, register, total};

fn counting(wrap: impl FnOnce(FaultPool) -> FaultPool) -> (Arc<CountingPool>, Arc<dyn MemoryPool>) {
    let faulty = wrap(FaultPool::new(Arc::new(UnboundedMemoryPool::default())));
    support::counting(faulty)
}

const REGISTERED: fn() -> Counted = || Counted {
    registrations: 1,
    unspillable: 1,
    ..Counted::default()
};

type Call = fn(&MemoryReservation);

#[test]
fn an_acquire_that_panicked_acquired_nothing() {
    let calls: [(Call, bool); 4] = [
        (|a| a.grow(64), false),
        (|a| a.resize(64), false),
        (|a| drop(a.try_grow(64)), true),
        (|a| drop(a.try_resize(64)), true),
    ];
    for (call, fallible) in calls {
        let (counting, pool) = counting(|pool| pool.panic_nth(1));
        let a = register(&pool, "a");
        let panic = caught(|| call(&a));
        // It is the wrapped pool's own that comes out.
        assert!(panic.message.starts_with("FaultPool panicked in acquire 1"));
        let (asked, none) = (Asked(1, 64, 0), Asked::default());
        let expected = Counted {
            try_grow: if fallible { asked } else { none },
            grow: if fallible { none } else { asked },
            panicked: 1,
            sizes: [(64, 1)].into(),
            ..REGISTERED()
        };
        assert_eq!(total(&counting), expected);

        // Later calls work, and count.
        call(&a);
        let (asked, none) = (Asked(2, 128, 64), Asked::default());
        let expected = Counted {
            try_grow: if fallible { asked } else { none },
            grow: if fallible { none } else { asked },
            reserved: 64,
            peak: 64,
            sizes: [(64, 2)].into(),
            ..expected
        };
        assert_eq!(total(&counting), expected);
        assert_eq!(pool.reserved(), 64);
        a.free();
        assert_eq!(total(&counting).reserved, 0);
        counting.snapshot().assert_everything_released();
    }
}

#[test]
fn a_release_that_panicked_released_nothing() {
    let calls: [Call; 6] = [
        |a| a.shrink(60),
        |a| drop(a.try_shrink(60)),
        |a| a.resize(4),
        |a| drop(a.try_resize(4)),
        |a| drop(a.split(60)),
        |a| {
            let most = a.split(60);
            most.free();
        },
    ];
    for call in calls {
        let (counting, pool) = counting(|pool| pool.panic_nth_release(1));
        let a = register(&pool, "a");
        a.grow(64);
        let panic = caught(|| call(&a));
        assert!(panic.message.starts_with("FaultPool panicked in release 1"));
        let mut expected = Counted {
            grow: Asked(1, 64, 64),
            releases_panicked: 1,
            reserved: 64,
            peak: 64,
            sizes: [(64, 1)].into(),
            ..REGISTERED()
        };
        assert_eq!(total(&counting), expected);
        assert_eq!(pool.reserved(), 64);

        // Later calls work, and count. The reservation had already taken off the 60.
        a.try_grow(10).unwrap();
        a.free();
        expected.try_grow = Asked(1, 10, 10);
        expected.releases = (1, 14);
        expected.reserved = 60;
        expected.peak = 74;
        expected.sizes.insert(10, 1);
        assert_eq!(total(&counting), expected);
        assert_eq!(pool.reserved(), 60);
    }
}

#[test]
fn a_reservation_whose_drop_panics_leaves_its_bytes_to_see() {
    let (counting, pool) = counting(|pool| pool.panic_nth_release(1));
    let a = register(&pool, "a");
    a.grow(64);
    caught(|| drop(a));
    let expected = Counted {
        unregistrations: 1,
        grow: Asked(1, 64, 64),
        releases_panicked: 1,
        reserved: 64,
        peak: 64,
        sizes: [(64, 1)].into(),
        ..REGISTERED()
    };
    let snapshot = counting.snapshot();
    assert!(snapshot.consumers.is_empty());
    assert_eq!(counted(&snapshot.consumer("a")), expected);
    assert_eq!(counted(&snapshot.total), expected);
    let message = counting.leak_check().message().expect("64 bytes are held");
    assert!(message.contains("64") && message.contains('a'), "{message}");
}

#[test]
fn an_over_release_that_panicked_is_no_anomaly() {
    let (counting, pool) = counting(|pool| pool.panic_nth_release(1));
    let a = register(&pool, "a");
    a.grow(10);
    caught(|| pool.shrink(&a, 500));
    let figures = total(&counting);
    assert_eq!(figures.anomalies, (0, 0));
    assert_eq!((figures.reserved, figures.releases), (10, (0, 0)));
}

#[test]
fn a_reservation_that_a_panic_drops_gives_its_memory_back() {
    let (counting, pool) = counting(|pool| pool.panic_nth(2));
    caught(|| {
        let a = register(&pool, "a");
        a.grow(64);
        a.grow(1);
    });
    let expected = Counted {
        unregistrations: 1,
        grow: Asked(2, 65, 64),
        panicked: 1,
        releases: (1, 64),
        peak: 64,
        sizes: [(64, 1), (1, 1)].into(),
        ..REGISTERED()
    };
    assert_eq!(total(&counting), expected);
    counting.snapshot().assert_everything_released();
}

#[test]
fn every_call_panics_and_every_figure_stays_right() {
    let (counting, pool) = counting(|pool| pool.with_fault(|_| Some(Fault::Panic)));
    let (a, b) = (register(&pool, "a"), register(&pool, "b"));
    for bytes in 1..=16 {
        for reservation in [&a, &b] {
            caught(|| reservation.grow(bytes));
            let _ = caught(|| reservation.try_grow(bytes));
            caught(|| pool.shrink(reservation, bytes));
        }
    }
    let one = Counted {
        // 1 + ... + 16
        try_grow: Asked(16, 136, 0),
        grow: Asked(16, 136, 0),
        panicked: 32,
        releases_panicked: 16,
        sizes: (1..=16).map(|bytes| (bytes, 2)).collect(),
        ..REGISTERED()
    };
    let snapshot = counting.snapshot();
    assert_eq!(raw(&snapshot, &a), one);
    assert_eq!(raw(&snapshot, &b), one);
}

#[test]
fn a_pool_that_panics_in_register_has_registered_nobody() {
    let panics = Arc::new(AtomicBool::new(true));
    let hook = Arc::clone(&panics);
    let (counting, pool) = support::counting(RegisterHook::new(move |method| {
        assert!(!hook.load(SeqCst), "{method} panics");
    }));
    let panic = caught(|| register(&pool, "a"));
    assert_eq!(panic.message, "register panics");
    assert!(counting.snapshot().total.is_zero());
    assert!(counting.snapshot().consumers.is_empty());

    panics.store(false, SeqCst);
    let a = register(&pool, "a");
    a.grow(10);
    a.free();
    panics.store(true, SeqCst);
    let panic = caught(|| drop(a));
    assert_eq!(panic.message, "unregister panics");
    let figures = total(&counting);
    assert_eq!((figures.registrations, figures.unregistrations), (1, 1));
    assert!(counting.snapshot().consumers.is_empty());
    assert_eq!(counted(&counting.snapshot().consumer("a")), figures);
}

/// While the release was under way the bytes were still held, and others came on top.
#[test]
fn a_release_that_panicked_late_does_not_hide_a_peak() {
    let (faulty, parked) =
        FaultPool::new(Arc::new(UnboundedMemoryPool::default())).park_nth_release(1);
    let (counting, pool) = support::counting(faulty.panic_nth_release(1));
    let (a, b) = (register(&pool, "a"), register(&pool, "b"));
    let sibling = a.new_empty();
    a.grow(100);
    thread::scope(|scope| {
        let release = scope.spawn(|| caught(|| a.free()));
        parked.wait();
        b.grow(50);
        sibling.grow(7);
        assert_eq!(pool.reserved(), 157);
        parked.let_go();
        release.join().unwrap();
    });
    assert_eq!(total(&counting).peak, 157);
    assert_eq!(raw(&counting.snapshot(), &sibling).peak, 107);
    b.free();
    sibling.free();
    // A peak never goes down.
    assert_eq!(total(&counting).peak, 157);
    assert_eq!(raw(&counting.snapshot(), &sibling).peak, 107);
}

/// FairSpillPool's own panic: a consumer that cannot spill unregisters as one that can.
#[test]
fn a_panic_of_datafusion_s_own_goes_through() {
    let (counting, pool) = support::counting(FairSpillPool::new(100));
    let consumer = MemoryConsumer::new("a").with_can_spill(true);
    assert!(quietly(|| pool.unregister(&consumer)).is_err());
    // And nothing is locked up.
    let b = register(&pool, "b");
    b.try_grow(100).unwrap();
    b.try_grow(1).unwrap_err();
    assert_eq!(counting.snapshot().consumer("b").denied.calls, 1);
}

#[test]
fn a_panic_in_one_thread_is_no_matter_to_another() {
    let (counting, pool) = counting(|pool| {
        pool.with_fault(|call| {
            (call.reservation.consumer().name() == "panics").then_some(Fault::Panic)
        })
    });
    thread::scope(|scope| {
        for name in ["panics", "works", "panics", "works"] {
            let pool = &pool;
            scope.spawn(move || {
                let reservation = register(pool, name);
                for _ in 0..1_000 {
                    let _ = quietly(|| reservation.grow(3));
                    let _ = quietly(|| reservation.free());
                }
            });
        }
    });
    let snapshot = counting.snapshot();
    let figures = counted(&snapshot.consumer("panics"));
    assert_eq!(figures.grow, Asked(2_000, 6_000, 0));
    assert_eq!((figures.panicked, figures.releases), (2_000, (0, 0)));
    let figures = counted(&snapshot.consumer("works"));
    assert_eq!(figures.grow, Asked(2_000, 6_000, 6_000));
    assert_eq!((figures.panicked, figures.releases), (0, (2_000, 6_000)));
    assert_eq!(snapshot.total.reserved_bytes, 0);
}

#[test]
fn the_root_error_decides_between_denied_and_failed() {
    fn denied() -> DataFusionError {
        DataFusionError::ResourcesExhausted("full".into())
    }
    type Make = fn() -> DataFusionError;
    let denials: [Make; 5] = [
        denied,
        || denied().context("sorting").context("in the query"),
        || DataFusionError::Shared(Arc::new(denied())),
        || DataFusionError::External(Box::new(denied().context("remote"))),
        || DataFusionError::IoError(io::Error::other(denied())),
    ];
    let failures: [Make; 5] = [
        || DataFusionError::Execution("Resources exhausted".into()),
        || DataFusionError::Internal("bug".into()).context("Resources exhausted"),
        || DataFusionError::Plan("no".into()),
        || DataFusionError::IoError(io::ErrorKind::OutOfMemory.into()),
        || DataFusionError::External("the manager is gone".into()),
    ];
    let asked_for = |make: Make| {
        let (counting, pool) = counting(|pool| pool.with_fault(move |_| Some(Fault::Fail(make()))));
        let a = register(&pool, "a");
        let result: Result<()> = a.try_grow(64);
        // The error comes out as it was.
        assert_eq!(result.unwrap_err().to_string(), make().to_string());
        assert_eq!(a.size(), 0);
        counting.snapshot()
    };
    let expected = Counted {
        try_grow: Asked(1, 64, 0),
        sizes: [(64, 1)].into(),
        ..REGISTERED()
    };
    for make in denials {
        let snapshot = asked_for(make);
        let denied = Counted {
            denied: (1, 64),
            ..expected.clone()
        };
        assert_eq!(counted(&snapshot.total), denied);
        assert_eq!(snapshot.denials.len(), 1);
    }
    for make in failures {
        let snapshot = asked_for(make);
        let failed = Counted {
            failed: 1,
            ..expected.clone()
        };
        assert_eq!(counted(&snapshot.total), failed);
        assert!(snapshot.denials.is_empty());
    }
}

#[test]
fn acquires_are_granted_and_denied_and_failed_and_panicked_ones() {
    let (counting, pool) = counting(|pool| {
        pool.with_fault(|call| match (call.bytes, call.number % 4) {
            (64, 1) => Some(Fault::Deny),
            (64, 2) => Some(Fault::Fail(DataFusionError::Plan("no".into()))),
            (64, 3) => Some(Fault::Panic),
            _ => None,
        })
    });
    let a = register(&pool, "a");
    for _ in 0..40 {
        let _ = quietly(|| a.try_grow(64));
    }
    for _ in 0..40 {
        let _ = quietly(|| a.grow(64));
    }
    let expected = Counted {
        try_grow: Asked(40, 2_560, 640),
        // Of the infallible ones only the panics go wrong.
        grow: Asked(40, 2_560, 1_920),
        denied: (10, 640),
        failed: 10,
        panicked: 20,
        reserved: 2_560,
        peak: 2_560,
        sizes: [(64, 80)].into(),
        ..REGISTERED()
    };
    let snapshot = counting.snapshot();
    assert_eq!(counted(&snapshot.total), expected);
    assert_eq!(snapshot.total.granted(), 40);
    assert_eq!(snapshot.total.mean_acquired_bytes(), Some(64.0));
}
