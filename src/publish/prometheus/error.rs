//! Why a server did not start.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::SocketAddr;

/// Why a [`PrometheusServer`](super::PrometheusServer) did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum PrometheusServerError {
    /// The address cannot be served: it is in use, say, or not this machine's.
    Address {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// A server of this process is running, and shows the recorder of the process.
    Running {
        /// Where it serves.
        address: SocketAddr,
    },
    /// The process has a recorder that is not this crate's.
    RecorderInstalled,
    /// The system gives no thread, or none that can wait for connections.
    Thread(io::Error),
}

impl Display for PrometheusServerError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { address, source } => {
                write!(f, "cannot serve metrics at {address}: {source}")
            }
            Self::Running { address } => write!(
                f,
                "the metrics of this process are served at {address} already: drop that server \
                 first, or give this one a recorder of its own"
            ),
            Self::RecorderInstalled => f.write_str(
                "this process has another metrics recorder already: publish into that one with \
                 Registry::publish, or give this server a recorder of its own",
            ),
            Self::Thread(source) => write!(f, "cannot start a thread to serve metrics: {source}"),
        }
    }
}

impl Error for PrometheusServerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Address { source, .. } | Self::Thread(source) => Some(source),
            Self::Running { .. } | Self::RecorderInstalled => None,
        }
    }
}
