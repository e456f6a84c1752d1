//! A JVM in this process.

use std::error::Error;
use std::fmt::{Display, Formatter};
use std::sync::OnceLock;

use jni::{InitArgsBuilder, JNIVersion, JavaVM};

use crate::setup::{NotSetUp, class_path};

/// Why there is no JVM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartError {
    /// Its class path is not there.
    NotSetUp(NotSetUp),
    /// It was not found, or did not start, in the words of the `jni` crate.
    Failed(String),
}

impl Display for StartError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotSetUp(error) => error.fmt(f),
            Self::Failed(reason) => write!(
                f,
                "No Java VM could be started: {reason}. It takes a Java of version 17 or later, \
                 found by JAVA_HOME or as `java`"
            ),
        }
    }
}

impl Error for StartError {}

/// The JVM of this process, started by the first call, with Spark on its class path. It stays
/// until the process ends: a process can have one JVM in its life.
///
/// # Errors
///
/// Where there is no class path or no Java. Later calls give the same error.
pub fn jvm() -> Result<JavaVM, StartError> {
    static JVM: OnceLock<Result<JavaVM, StartError>> = OnceLock::new();
    JVM.get_or_init(start).clone()
}

fn start() -> Result<JavaVM, StartError> {
    let class_path = class_path().map_err(StartError::NotSetUp)?;
    let arguments = InitArgsBuilder::new()
        .version(JNIVersion::V1_8)
        .option(format!("-Djava.class.path={class_path}"))
        // Spark's objects here are few and small: what is measured are its locks.
        .option("-Xmx128m")
        .option("-XX:+UseSerialGC")
        // Signals are this process's own business.
        .option("-Xrs")
        // There is no logging back end on the class path, which is not worth a warning.
        .option("-Dslf4j.internal.verbosity=ERROR")
        .build()
        .map_err(|error| StartError::Failed(error.to_string()))?;
    JavaVM::new(arguments).map_err(|error| StartError::Failed(error.to_string()))
}
