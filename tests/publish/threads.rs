//! Publishing beside everything else that goes on.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use datafusion_counting_pool::Registry;

use crate::exposition::{fresh, recorder, scrape};
use crate::{consumer, finished, pool};

/// A registry whose first publish stops halfway: all figures are read, none is published. The
/// receiver hears when it is there, and the sender lets it go on.
fn halting() -> (Registry, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (reached, halted) = mpsc::channel();
    let (go_on, waiting) = mpsc::channel();
    let waiting = std::sync::Mutex::new(waiting);
    let first = AtomicBool::new(true);
    let registry = Registry::builder().with_label(move |name| {
        if first.swap(false, SeqCst) {
            reached.send(()).unwrap();
            waiting.lock().unwrap().recv().unwrap();
        }
        name.to_owned()
    });
    (registry.build(), halted, go_on)
}

#[test]
fn no_gauge_is_left_with_a_value_from_before() {
    let (registry, halted, go_on) = halting();
    let recorder = Arc::new(recorder());
    let pool = pool(&registry, "p");
    let reservation = consumer(&pool, "x");
    reservation.try_grow(64).unwrap();

    let publish = || {
        let (registry, recorder) = (registry.clone(), Arc::clone(&recorder));
        thread::spawn(move || metrics::with_local_recorder(&*recorder, || registry.publish()))
    };
    let early = publish();
    halted.recv().unwrap();
    // 64 has been read. Now it is 0, and a second thread publishes that.
    drop(reservation);
    let late = publish();
    go_on.send(()).unwrap();
    early.join().unwrap();
    late.join().unwrap();
    let shown = crate::exposition::series(&recorder.handle().render());
    assert_eq!(shown[r#"reserved_bytes{pool="p",consumer="x"}"#], 0.0);
}

#[test]
fn nobody_waits_for_a_publish() {
    let (registry, halted, go_on) = halting();
    let first = pool(&registry, "p");
    let held = consumer(&first, "x");
    held.try_grow(1).unwrap();
    let publishing = {
        let registry = registry.clone();
        thread::spawn(move || registry.publish())
    };
    halted.recv().unwrap();
    // Each of these would hang if it did.
    held.try_grow(1).unwrap();
    held.shrink(1);
    finished(&first, "y", 5);
    let another = pool(&registry, "p");
    finished(&another, "y", 2);
    drop(another);
    drop((held, first));
    go_on.send(()).unwrap();
    publishing.join().unwrap();
    let seen = fresh(&registry);
    assert_eq!(seen[r#"acquires_total{pool="p",consumer="x"}"#], 2.0);
    assert_eq!(seen[r#"acquires_total{pool="p",consumer="y"}"#], 7.0);
}

/// Each thread has a registry and a recorder of its own, as two tests would.
#[test]
fn registries_do_not_see_each_other() {
    let together = Barrier::new(2);
    thread::scope(|scope| {
        for acquires in [3, 5] {
            let together = &together;
            scope.spawn(move || {
                let (registry, recorder) = (Registry::new(), recorder());
                together.wait();
                let pool = pool(&registry, "p");
                finished(&pool, "x", acquires);
                together.wait();
                let seen = scrape(&registry, &recorder);
                assert_eq!(
                    seen[r#"acquires_total{pool="p",consumer="x"}"#],
                    acquires as f64
                );
                assert_eq!(seen[r#"registrations_total{pool="p",consumer="x"}"#], 1.0);
            });
        }
    });
}

/// Pools of one name come and go on two threads while a third publishes: a counter that ever
/// went back would show, for each publish is read by a recorder that knows none before it.
#[test]
fn counters_never_go_back_while_pools_come_and_go() {
    const TASKS: usize = 500;
    let registry = Registry::new();
    let done = AtomicBool::new(false);
    let acquires = r#"acquires_total{pool="p",consumer="x"}"#;
    let work = || {
        for _ in 0..TASKS {
            let pool = pool(&registry, "p");
            finished(&pool, "x", 3);
        }
    };
    thread::scope(|scope| {
        let publisher = scope.spawn(|| {
            let (mut seen, mut last) = (0, 0.0);
            while !done.load(SeqCst) {
                let now = fresh(&registry).get(acquires).copied().unwrap_or(0.0);
                assert!(now >= last, "{now} after {last}");
                (seen, last) = (seen + 1, now);
            }
            seen
        });
        let workers = [scope.spawn(work), scope.spawn(work)];
        for worker in workers {
            worker.join().unwrap();
        }
        done.store(true, SeqCst);
        assert!(publisher.join().unwrap() > 0);
    });
    assert_eq!(fresh(&registry)[acquires], (2 * TASKS * 3) as f64);
}
