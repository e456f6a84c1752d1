//! Figures as a plain struct that a test can write down, with zero for what it leaves out.

use datafusion_counting_pool::{CallTime, Calls, Figures, Requests};
use std::collections::BTreeMap;

/// Every figure of [`Figures`]; pairs are calls and bytes, or total and longest nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) registrations: u64,
    pub(crate) unspillable: u64,
    pub(crate) unregistrations: u64,
    pub(crate) try_grow: Asked,
    pub(crate) grow: Asked,
    pub(crate) denied: (u64, u64),
    pub(crate) failed: u64,
    pub(crate) panicked: u64,
    pub(crate) releases: (u64, u64),
    pub(crate) releases_panicked: u64,
    pub(crate) acquire_nanos: (u64, u64),
    pub(crate) release_nanos: (u64, u64),
    pub(crate) reserved: u64,
    pub(crate) peak: u64,
    /// Calls by the bytes they asked for.
    pub(crate) sizes: BTreeMap<u64, u64>,
    pub(crate) anomalies: (u64, u64),
    pub(crate) zero_byte_calls: u64,
}

/// Calls, bytes asked for, bytes granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked(pub(crate) u64, pub(crate) u64, pub(crate) u64);

/// Takes the figures apart, and holds those that say a thing twice against each other. The sizes
/// must be exact.
#[track_caller]
pub(crate) fn counted(figures: &Figures) -> Counted {
    let Figures {
        registrations,
        unspillable_registrations: unspillable,
        unregistrations,
        acquires,
        denied,
        failed,
        panicked,
        releases,
        releases_panicked,
        acquire_time,
        release_time,
        reserved_bytes: reserved,
        peak_bytes: peak,
        ref sizes,
        anomalies,
        zero_byte_calls,
        ..
    } = *figures;
    let (try_grow, grow) = (acquires.try_grow, acquires.grow);
    assert_eq!(acquires.calls, try_grow.calls + grow.calls);
    assert_eq!(
        acquires.asked_bytes,
        try_grow.asked_bytes + grow.asked_bytes
    );
    assert_eq!(
        acquires.acquired_bytes,
        try_grow.acquired_bytes + grow.acquired_bytes
    );
    assert_eq!(
        acquires.calls,
        figures.granted() + denied.calls + failed + panicked
    );
    assert!(sizes.is_exact(), "{sizes:?}");
    let sizes: BTreeMap<_, _> = sizes.iter().map(|size| (size.bytes, size.calls)).collect();
    assert_eq!(sizes.values().sum::<u64>(), acquires.calls);
    Counted {
        registrations,
        unspillable,
        unregistrations,
        try_grow: asked(try_grow),
        grow: asked(grow),
        denied: calls(denied),
        failed,
        panicked,
        releases: calls(releases),
        releases_panicked,
        acquire_nanos: nanos(acquire_time),
        release_nanos: nanos(release_time),
        reserved,
        peak,
        sizes,
        anomalies: calls(anomalies),
        zero_byte_calls,
    }
}

fn asked(requests: Requests) -> Asked {
    Asked(
        requests.calls,
        requests.asked_bytes,
        requests.acquired_bytes,
    )
}

fn calls(calls: Calls) -> (u64, u64) {
    (calls.calls, calls.bytes)
}

fn nanos(time: CallTime) -> (u64, u64) {
    (time.total.as_nanos() as u64, time.max.as_nanos() as u64)
}
