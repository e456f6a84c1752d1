//! Why a `try_grow` was refused, in words that tell the cases apart.

use std::fmt::{Display, Formatter};

/// All figures are bytes, but for `consumers`. `held` is what the asking consumer has on the
/// pool's books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    FairShare {
        held: usize,
        share: usize,
        pool_size: usize,
        consumers: usize,
    },
    PoolLimit {
        held: usize,
        used: usize,
        pool_size: usize,
    },
    ShortGrant {
        held: usize,
        granted: usize,
        overcommit: usize,
    },
    TooLarge {
        held: usize,
    },
}

impl Refusal {
    /// The text of the error, for a `pool` that was asked for `bytes` by `consumer`.
    pub(super) fn message(&self, pool: &str, consumer: &str, bytes: usize) -> String {
        format!("{pool}: {consumer} asked for {bytes} bytes, {self}")
    }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::FairShare {
                held,
                share,
                pool_size,
                consumers,
            } => write!(
                f,
                "holds {held} and is allowed a fair share of {share} \
                 ({pool_size} among {consumers} registered consumers)"
            ),
            Self::PoolLimit {
                held,
                used,
                pool_size,
            } => write!(
                f,
                "holds {held}, and the pool is allowed a limit of {pool_size}, \
                 of which {used} are in use"
            ),
            Self::ShortGrant {
                held,
                granted,
                overcommit,
            } => {
                write!(f, "holds {held}, and Spark's short grant allowed {granted}")?;
                match overcommit {
                    0 => Ok(()),
                    _ => write!(f, " for these and {overcommit} overcommitted before"),
                }
            }
            Self::TooLarge { held } => write!(
                f,
                "holds {held}, and together with what is in use no more than {} can be counted",
                super::MAX_REQUEST
            ),
        }
    }
}
