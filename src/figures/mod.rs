//! Plain values: what is known of one consumer, or of several added up.

mod histogram;
mod sizes;

pub use histogram::Histogram;
pub(crate) use histogram::{BUCKETS, bucket_of};
pub(crate) use sizes::TRACKED_SIZES;
pub use sizes::{RequestSize, RequestSizes};

use std::time::Duration;

/// Everything that is counted of one consumer, of the consumers of one name or operator, or of
/// a whole pool.
///
/// Sizes are in bytes, calls in calls. Calls of zero bytes are in [`zero_byte_calls`] and in
/// nothing else. Every count of calls, bytes and time only ever rises.
///
/// [`zero_byte_calls`]: Self::zero_byte_calls
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Figures {
    /// Consumers registered.
    pub registrations: u64,
    /// Of these, consumers that cannot spill.
    pub unspillable_registrations: u64,
    /// Consumers unregistered.
    pub unregistrations: u64,
    /// Requests for memory, whatever became of them: [`granted`](Self::granted) + denied +
    /// failed + panicked.
    pub acquires: Acquires,
    /// `try_grow` calls that ended in `ResourcesExhausted`, and the bytes asked for in them.
    pub denied: Calls,
    /// `try_grow` calls that ended in any other error.
    pub failed: u64,
    /// `try_grow` and `grow` calls in which the wrapped pool panicked.
    pub panicked: u64,
    /// `shrink` calls that returned, and the bytes given back in them. Bytes that the consumer
    /// did not hold are in [`anomalies`](Self::anomalies), not here.
    pub releases: Calls,
    /// `shrink` calls in which the wrapped pool panicked. They count as nothing else.
    pub releases_panicked: u64,
    /// Time inside the wrapped pool's `try_grow` and `grow`: denied and failed calls included,
    /// panicked ones not. Zero where timing is off.
    pub acquire_time: CallTime,
    /// Time inside the wrapped pool's `shrink`, panicked calls not included. Zero where timing
    /// is off.
    pub release_time: CallTime,
    /// Bytes held now. In a difference of two snapshots: at the later one.
    pub reserved_bytes: u64,
    /// Most bytes held at once.
    ///
    /// Of a pool this is the peak of the sum over all consumers. Of a name or an operator it is
    /// the highest peak of any single consumer, for what several held at one moment is not
    /// recorded. In a difference of two snapshots: as in the later one, since the beginning.
    pub peak_bytes: u64,
    /// How large the requests were. All acquires count, denied ones too.
    pub sizes: RequestSizes,
    /// `shrink` calls that gave back more than the consumer held, and the bytes beyond.
    pub anomalies: Calls,
    /// `try_grow`, `grow` and `shrink` calls of zero bytes.
    pub zero_byte_calls: u64,
}

/// Requests for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Acquires {
    /// `try_grow` and `grow` calls of more than zero bytes.
    pub calls: u64,
    /// Bytes asked for in them.
    pub asked_bytes: u64,
    /// Bytes granted.
    pub acquired_bytes: u64,
    /// Of these, the fallible ones.
    pub try_grow: Requests,
    /// Of these, the infallible ones.
    pub grow: Requests,
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Requests {
    /// Calls of more than zero bytes.
    pub calls: u64,
    /// Bytes asked for in them.
    pub asked_bytes: u64,
    /// Bytes granted.
    pub acquired_bytes: u64,
}

/// A number of calls and the bytes they were about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Calls {
    /// Calls.
    pub calls: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Time spent inside calls of the wrapped pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CallTime {
    /// All calls together. As JSON: `total_ns`, a whole number.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "total_ns", serialize_with = "nanos")
    )]
    pub total: Duration,
    /// The longest call. In a difference of two snapshots: the longest since the beginning, or
    /// zero where no time was spent in between. As JSON: `max_ns`, a whole number.
    #[cfg_attr(feature = "serde", serde(rename = "max_ns", serialize_with = "nanos"))]
    pub max: Duration,
}

#[cfg(feature = "serde")]
pub(crate) fn nanos<S: serde::Serializer>(d: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

impl Figures {
    /// Acquires that were granted.
    pub fn granted(&self) -> u64 {
        self.acquires.calls - self.denied.calls - self.failed - self.panicked
    }

    /// Mean bytes of a granted acquire, `None` where there was none.
    pub fn mean_acquired_bytes(&self) -> Option<f64> {
        let granted = self.granted();
        (granted > 0).then(|| self.acquires.acquired_bytes as f64 / granted as f64)
    }

    /// True where nothing was counted. Bytes still held do not matter.
    pub fn is_zero(&self) -> bool {
        let held = Self {
            reserved_bytes: self.reserved_bytes,
            peak_bytes: self.peak_bytes,
            ..Self::default()
        };
        *self == held
    }

    /// Adds the figures of others. Peaks do not add up: the higher one stays.
    pub(crate) fn add(&mut self, other: &Self) {
        self.combine(other, u64::wrapping_add);
        self.reserved_bytes += other.reserved_bytes;
        self.peak_bytes = self.peak_bytes.max(other.peak_bytes);
        self.acquire_time.add(other.acquire_time);
        self.release_time.add(other.release_time);
        self.sizes.merge(&other.sizes);
    }

    /// Takes off what had been counted at an earlier time.
    pub(crate) fn subtract(&mut self, earlier: &Self) {
        self.combine(earlier, u64::saturating_sub);
        self.acquire_time.subtract(earlier.acquire_time);
        self.release_time.subtract(earlier.release_time);
        self.sizes.subtract(&earlier.sizes);
    }

    fn combine(&mut self, other: &Self, op: impl Fn(u64, u64) -> u64) {
        let Self {
            registrations,
            unspillable_registrations,
            unregistrations,
            acquires,
            denied,
            failed,
            panicked,
            releases,
            releases_panicked,
            anomalies,
            zero_byte_calls,
            // Neither sums nor differences of these are made number by number.
            acquire_time: _,
            release_time: _,
            reserved_bytes: _,
            peak_bytes: _,
            sizes: _,
        } = self;
        for (figure, other) in [
            (registrations, other.registrations),
            (unspillable_registrations, other.unspillable_registrations),
            (unregistrations, other.unregistrations),
            (&mut acquires.calls, other.acquires.calls),
            (&mut acquires.asked_bytes, other.acquires.asked_bytes),
            (&mut acquires.acquired_bytes, other.acquires.acquired_bytes),
            (&mut denied.calls, other.denied.calls),
            (&mut denied.bytes, other.denied.bytes),
            (failed, other.failed),
            (panicked, other.panicked),
            (&mut releases.calls, other.releases.calls),
            (&mut releases.bytes, other.releases.bytes),
            (releases_panicked, other.releases_panicked),
            (&mut anomalies.calls, other.anomalies.calls),
            (&mut anomalies.bytes, other.anomalies.bytes),
            (zero_byte_calls, other.zero_byte_calls),
        ] {
            *figure = op(*figure, other);
        }
        for (requests, other) in [
            (&mut acquires.try_grow, &other.acquires.try_grow),
            (&mut acquires.grow, &other.acquires.grow),
        ] {
            requests.calls = op(requests.calls, other.calls);
            requests.asked_bytes = op(requests.asked_bytes, other.asked_bytes);
            requests.acquired_bytes = op(requests.acquired_bytes, other.acquired_bytes);
        }
    }
}

impl CallTime {
    fn add(&mut self, other: Self) {
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    fn subtract(&mut self, earlier: Self) {
        self.total = self.total.saturating_sub(earlier.total);
        if self.total.is_zero() {
            self.max = Duration::ZERO;
        }
    }
}
