//! What happened in each interval so far.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use datafusion_counting_pool::Snapshot;
use serde_json::{Value, json};

/// At a round each, more than eleven minutes.
const MOST_POINTS: usize = 1_000;

/// One interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// Its end, from the start.
    pub(crate) at: Duration,
    /// `None` where no task ended.
    pub(crate) acquires_per_task: Option<f64>,
    pub(crate) acquires_per_second: f64,
    /// Inside the pool's calls, in each second.
    pub(crate) pool_time: Duration,
    /// The most that was seen.
    pub(crate) reserved_bytes: u64,
}

impl Point {
    /// What happened between two snapshots.
    pub(crate) fn between(then: &Snapshot, now: &Snapshot, at: Duration, reserved: u64) -> Self {
        let interval = now.since(then);
        let seconds = interval.elapsed.as_secs_f64();
        let total = &interval.total;
        let pool_time = total.acquire_time.total + total.release_time.total;
        // Of tasks that have ended everything counts, also what they did before the interval.
        let ((tasks_then, acquires_then), (tasks, acquires)) = (finished(then), finished(now));
        let (tasks, acquires) = (tasks - tasks_then, acquires - acquires_then);
        Self {
            at,
            acquires_per_task: (tasks > 0).then(|| acquires as f64 / tasks as f64),
            acquires_per_second: total.acquires.calls as f64 / seconds,
            pool_time: pool_time.div_f64(seconds),
            reserved_bytes: reserved,
        }
    }
}

/// Tasks that have ended, and the acquires that they made.
fn finished(snapshot: &Snapshot) -> (u64, u64) {
    let figures = snapshot.finished.iter().map(|row| &row.figures);
    figures.fold((0, 0), |(tasks, acquires), figures| {
        (
            tasks + figures.unregistrations,
            acquires + figures.acquires.calls,
        )
    })
}

/// The last points, for whoever opens the page late.
#[derive(Debug)]
pub(crate) struct History {
    switch_after: Duration,
    points: Mutex<VecDeque<Point>>,
}

impl History {
    pub(crate) fn new(switch_after: Duration) -> Self {
        Self {
            switch_after,
            points: Mutex::default(),
        }
    }

    pub(crate) fn push(&self, point: Point) {
        let mut points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
        if points.len() == MOST_POINTS {
            points.pop_front();
        }
        points.push_back(point);
    }

    /// A column for each figure: times in seconds, the time in the pool in microseconds.
    pub(crate) fn json(&self, now: Duration) -> Value {
        let points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
        let column = |figure: fn(&Point) -> Option<f64>| -> Vec<Option<f64>> {
            points.iter().map(figure).collect()
        };
        json!({
            "elapsed": now.as_secs_f64(),
            "switch_after": self.switch_after.as_secs_f64(),
            "at": column(|point| Some(point.at.as_secs_f64())),
            "acquires_per_task": column(|point| point.acquires_per_task),
            "acquires_per_second": column(|point| Some(point.acquires_per_second)),
            "pool_microseconds": column(|point| Some(point.pool_time.as_secs_f64() * 1e6)),
            "reserved_bytes": column(|point| Some(point.reserved_bytes as f64)),
        })
    }
}
