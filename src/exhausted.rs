//! Telling a denial from every other error.

use std::error::Error;
use std::io;

use datafusion_common::DataFusionError;

/// Whether `error` is, at its root, [`DataFusionError::ResourcesExhausted`]: a memory pool's
/// denial.
///
/// Contexts, `Shared`, `External`, Arrow and IO errors around it are looked through. Every other
/// root is some other failure, which spilling would not cure.
///
/// ```
/// use datafusion_common::DataFusionError;
/// use datafusion_counting_pool::is_resources_exhausted;
///
/// let denied = DataFusionError::ResourcesExhausted("no room".into());
/// assert!(is_resources_exhausted(&denied.context("sorting")));
/// assert!(!is_resources_exhausted(&DataFusionError::Execution("no room".into())));
/// ```
pub fn is_resources_exhausted(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => true,
        // `io::Error::source` passes over the very error it was made of, so `find_root` stops above
        // it.
        DataFusionError::IoError(io) => inside_io(io),
        DataFusionError::External(other) => {
            other.downcast_ref::<io::Error>().is_some_and(inside_io)
        }
        DataFusionError::ArrowError(arrow, _) => arrow
            .source()
            .and_then(|source| source.downcast_ref::<io::Error>())
            .is_some_and(inside_io),
        _ => false,
    }
}

fn inside_io(error: &io::Error) -> bool {
    error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<DataFusionError>())
        .is_some_and(is_resources_exhausted)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::error::ArrowError;

    use super::*;

    fn denied() -> DataFusionError {
        DataFusionError::ResourcesExhausted("denied".into())
    }

    #[test]
    fn a_denial_is_found_under_every_wrapping() {
        let wrapped = [
            denied(),
            denied().context("outer").context("outermost"),
            DataFusionError::Shared(Arc::new(denied())),
            DataFusionError::External(Box::new(denied())),
            DataFusionError::External(Box::new(Arc::new(denied()))),
            DataFusionError::from(ArrowError::ExternalError(Box::new(denied()))),
            DataFusionError::IoError(io::Error::other(denied())),
            DataFusionError::External(Box::new(io::Error::other(denied()))),
            DataFusionError::from(ArrowError::IoError(
                "writing".into(),
                io::Error::other(denied()),
            )),
            DataFusionError::Shared(Arc::new(
                DataFusionError::External(Box::new(denied().context("inner"))).context("outer"),
            )),
        ];
        for error in &wrapped {
            assert!(is_resources_exhausted(error), "{error:?}");
        }
    }

    #[test]
    fn another_root_is_not_a_denial() {
        let others = [
            DataFusionError::Execution("Resources exhausted".into()),
            DataFusionError::Internal("broken".into()).context("Resources exhausted"),
            DataFusionError::IoError(io::ErrorKind::OutOfMemory.into()),
            DataFusionError::IoError(io::Error::other("Resources exhausted")),
            DataFusionError::External(Box::new(DataFusionError::Plan("no".into()))),
            DataFusionError::from(ArrowError::MemoryError("no".into())),
        ];
        for error in &others {
            assert!(!is_resources_exhausted(error), "{error:?}");
        }
    }
}
