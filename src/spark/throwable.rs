//! What Java throws out of Spark's memory management.

use std::error::Error;
use std::fmt::{Display, Formatter};

use datafusion_common::DataFusionError;

/// A Java exception or error, as far as it concerns a caller in Rust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JavaThrowable {
    /// The binary name of its class, such as `java.lang.InterruptedException`.
    pub class: String,
    /// What `getMessage` gives.
    pub message: Option<String>,
    /// The stack, innermost call first, as `class.method`, such as
    /// `org.apache.spark.memory.ExecutionMemoryPool.acquireMemory`.
    pub frames: Vec<String>,
}

const EXECUTION_MEMORY_POOL: &str = "org.apache.spark.memory.ExecutionMemoryPool.";

impl JavaThrowable {
    /// Whether this is Spark's own race between a release and a parked acquire (SPARK-59444).
    ///
    /// A release that brings a task's balance to zero removes the task's entry. An acquire of
    /// that task that was parked looks the entry up when it wakes, and fails although nobody
    /// refused it. It has to be asked again.
    ///
    /// Recognised by its class, by its message (`key not found: ` and the number of a task
    /// attempt) and by a stack frame of `ExecutionMemoryPool`: maps all over Spark throw the
    /// same class with the same words.
    pub fn is_missing_task_entry(&self) -> bool {
        let names_a_task = |message: &str| {
            message
                .strip_prefix("key not found: ")
                .is_some_and(|key| key.parse::<i64>().is_ok())
        };
        self.class == "java.util.NoSuchElementException"
            && self.message.as_deref().is_some_and(names_a_task)
            && self
                .frames
                .iter()
                .any(|frame| frame.starts_with(EXECUTION_MEMORY_POOL))
    }
}

impl Display for JavaThrowable {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.class)?;
        match &self.message {
            Some(message) => write!(f, ": {message}"),
            None => Ok(()),
        }
    }
}

impl Error for JavaThrowable {}

impl From<JavaThrowable> for DataFusionError {
    /// Never `ResourcesExhausted`, not even for a `SparkOutOfMemoryError`: that one says that a
    /// consumer on the JVM side failed to spill, and spilling on this side cures nothing.
    fn from(throwable: JavaThrowable) -> Self {
        DataFusionError::External(Box::new(throwable))
    }
}

/// Calls `acquire` until it ends in anything but [the race](JavaThrowable::is_missing_task_entry)
/// that makes a parked acquire fail without having been refused.
///
/// There is no limit to the repetitions, since each takes a release of the same task that ended
/// while this acquire was parked: somebody else got on every time.
///
/// # Errors
///
/// Any other error of `acquire`, such as the `InterruptedException` of a task that was killed
/// while parked.
pub fn retry_missing_task_entry<T>(
    mut acquire: impl FnMut() -> Result<T, JavaThrowable>,
) -> Result<T, JavaThrowable> {
    loop {
        match acquire() {
            Err(throwable) if throwable.is_missing_task_entry() => {}
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing_entry() -> JavaThrowable {
        JavaThrowable {
            class: "java.util.NoSuchElementException".to_owned(),
            message: Some("key not found: 42".to_owned()),
            frames: vec![
                "scala.collection.mutable.HashMap.apply".to_owned(),
                "org.apache.spark.memory.ExecutionMemoryPool.acquireMemory".to_owned(),
                "org.apache.spark.memory.UnifiedMemoryManager.acquireExecutionMemory".to_owned(),
            ],
        }
    }

    #[test]
    fn the_race_is_recognised_by_all_of_its_marks_and_nothing_wider() {
        assert!(missing_entry().is_missing_task_entry());

        let others = [
            JavaThrowable {
                class: "java.lang.RuntimeException".to_owned(),
                ..missing_entry()
            },
            JavaThrowable {
                message: None,
                ..missing_entry()
            },
            JavaThrowable {
                message: Some("key not found: rdd_1_2".to_owned()),
                ..missing_entry()
            },
            JavaThrowable {
                message: Some("None.get".to_owned()),
                ..missing_entry()
            },
            JavaThrowable {
                frames: vec![],
                ..missing_entry()
            },
            JavaThrowable {
                frames: vec!["org.apache.spark.storage.BlockManager.get".to_owned()],
                ..missing_entry()
            },
        ];
        for other in others {
            assert!(!other.is_missing_task_entry(), "{other:?}");
        }
    }

    #[test]
    fn only_the_race_is_asked_again() {
        let mut answers = vec![Ok(7), Err(missing_entry()), Err(missing_entry())];
        assert_eq!(retry_missing_task_entry(|| answers.pop().unwrap()), Ok(7));
        assert!(answers.is_empty());

        let killed = JavaThrowable {
            class: "java.lang.InterruptedException".to_owned(),
            message: None,
            frames: missing_entry().frames,
        };
        let mut answers = vec![Ok(7), Err(killed.clone())];
        assert_eq!(
            retry_missing_task_entry(|| answers.pop().unwrap()),
            Err(killed)
        );
        assert_eq!(answers, [Ok(7)]);
    }

    #[test]
    fn an_error_names_class_and_message() {
        assert_eq!(
            missing_entry().to_string(),
            "java.util.NoSuchElementException: key not found: 42"
        );
        let silent = JavaThrowable {
            message: None,
            ..missing_entry()
        };
        assert_eq!(silent.to_string(), "java.util.NoSuchElementException");
        let error = DataFusionError::from(missing_entry());
        assert!(matches!(error, DataFusionError::External(_)), "{error:?}");
        assert!(
            error
                .to_string()
                .contains("java.util.NoSuchElementException: key not found: 42")
        );
    }
}
