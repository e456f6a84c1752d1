//! Why there is no result: one line for standard error, and an exit code.

use std::fmt::{Display, Formatter};
use std::process::ExitCode;

use datafusion_common::DataFusionError;

/// What ends the program before it has a result.
#[derive(Debug, PartialEq)]
pub(crate) enum Failure {
    /// The user asked for something that cannot be had. Exit code 2.
    Usage(String),
    /// The run itself failed. Exit code 1.
    Run(String),
}

impl Failure {
    pub(crate) fn usage(message: impl Display) -> Self {
        Self::Usage(one_line(&message.to_string()))
    }

    pub(crate) fn run(message: impl Display) -> Self {
        Self::Run(one_line(&message.to_string()))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Run(_) => ExitCode::FAILURE,
        }
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Self::run(error.strip_backtrace())
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let (Self::Usage(message) | Self::Run(message)) = self;
        f.write_str(message)
    }
}

/// Errors of libraries may span lines; who reads a log wants one.
fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join(" ")
}
