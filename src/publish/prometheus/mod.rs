//! An address where Prometheus finds the figures.

mod error;
mod server;
mod site;

pub use error::PrometheusServerError;

use super::registry::Registry;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use parking_lot::Mutex;
use server::Server;
use site::{Page, Site};
use std::fmt::{self, Debug, Formatter};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

const PORT: u16 = 9184;

/// The recorder that this crate has made the process's own. It cannot be taken back, so it is
/// kept for a server that is started after one has stopped.
static INSTALLED: Mutex<Option<Installed>> = Mutex::new(None);

struct Installed {
    recorder: Arc<PrometheusRecorder>,
    served_at: Option<SocketAddr>,
}

/// Serves the figures of a [`Registry`] to Prometheus, from a thread of its own, until it is
/// dropped.
///
/// ```
/// use datafusion_counting_pool::{CountingPool, PrometheusServer, Registry};
/// use datafusion_execution::memory_pool::GreedyMemoryPool;
/// use std::sync::Arc;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = PrometheusServer::builder()
///     .with_address(([127, 0, 0, 1], 0)) // any free port; 9184 unless set
///     .start()?;
/// println!("scrape http://{}/metrics", server.address());
///
/// let inner = Arc::new(GreedyMemoryPool::new(64 << 20));
/// let pool = Arc::new(CountingPool::new(inner).with_name("sessions"));
/// Registry::global().add(&pool);
/// # Ok(())
/// # }
/// ```
///
/// It installs a recorder for the process, so that `/metrics` shows whatever else the process
/// publishes through the `metrics` facade. The figures of pools are read at each scrape. The
/// thread needs no runtime and shares none, so that it answers while queries keep all others
/// busy.
///
/// With an HTTP server of your own, use [`Registry::render`].
pub struct PrometheusServer {
    server: Server,
    serves_installed: bool,
}

impl PrometheusServer {
    /// Options for a server.
    pub fn builder() -> PrometheusServerBuilder {
        PrometheusServerBuilder {
            address: (Ipv4Addr::LOCALHOST, PORT).into(),
            registry: None,
            pages: vec![],
            own_recorder: false,
        }
    }

    /// Where it serves. The port is the one in use where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }
}

/// Stops serving, and waits until the port is free.
impl Drop for PrometheusServer {
    fn drop(&mut self) {
        self.server.stop();
        if self.serves_installed
            && let Some(installed) = &mut *INSTALLED.lock()
        {
            installed.served_at = None;
        }
    }
}

impl Debug for PrometheusServer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrometheusServer")
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}

/// Options of a [`PrometheusServer`].
#[must_use = "nothing is served until it is started"]
pub struct PrometheusServerBuilder {
    address: SocketAddr,
    registry: Option<Registry>,
    pages: Vec<Page>,
    own_recorder: bool,
}

impl PrometheusServerBuilder {
    /// Sets where to serve: 127.0.0.1:9184 unless set, which only this machine can reach. Port 0
    /// is any that is free.
    pub fn with_address(mut self, address: impl Into<SocketAddr>) -> Self {
        self.address = address.into();
        self
    }

    /// Publishes this registry instead of the [global](Registry::global) one.
    pub fn with_registry(mut self, registry: &Registry) -> Self {
        self.registry = Some(registry.clone());
        self
    }

    /// Serves another document beside `/metrics`: what `body` gives, each time it is asked for.
    ///
    /// `body` is called on the server's thread, and a scrape waits for it.
    pub fn with_page(
        mut self,
        path: impl Into<String>,
        content_type: &'static str,
        body: impl Fn() -> String + Send + Sync + 'static,
    ) -> Self {
        self.pages.push(Page::new(path.into(), content_type, body));
        self
    }

    /// Installs no recorder: `/metrics` then shows the registry's pools and nothing else. For a
    /// process with another recorder, and for several servers in one.
    pub fn with_own_recorder(mut self) -> Self {
        self.own_recorder = true;
        self
    }

    /// Starts serving.
    ///
    /// # Errors
    /// Where the address cannot be had, a server of this process is running, or another recorder
    /// is installed (neither of which matters with
    /// [a recorder of its own](Self::with_own_recorder)), or where the system gives no thread.
    /// Nothing is installed and nothing is served then.
    pub fn start(self) -> Result<PrometheusServer, PrometheusServerError> {
        if self.own_recorder {
            let server = self.serve(new_recorder())?;
            return Ok(PrometheusServer {
                server,
                serves_installed: false,
            });
        }
        let mut installed = INSTALLED.lock();
        if let Some(address) = installed.as_ref().and_then(|i| i.served_at) {
            return Err(PrometheusServerError::Running { address });
        }
        let recorder = match &*installed {
            Some(installed) => Arc::clone(&installed.recorder),
            None => new_recorder(),
        };
        // The recorder comes last, since it cannot be taken back.
        let server = self.serve(Arc::clone(&recorder))?;
        if installed.is_none() && metrics::set_global_recorder(Arc::clone(&recorder)).is_err() {
            return Err(PrometheusServerError::RecorderInstalled);
        }
        *installed = Some(Installed {
            recorder,
            served_at: Some(server.address()),
        });
        Ok(PrometheusServer {
            server,
            serves_installed: true,
        })
    }

    fn serve(self, recorder: Arc<PrometheusRecorder>) -> Result<Server, PrometheusServerError> {
        let registry = self.registry.unwrap_or_else(|| Registry::global().clone());
        Server::start(self.address, Site::new(recorder, registry, self.pages))
    }
}

fn new_recorder() -> Arc<PrometheusRecorder> {
    Arc::new(PrometheusBuilder::new().build_recorder())
}

impl Debug for PrometheusServerBuilder {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrometheusServerBuilder")
            .field("address", &self.address)
            .field("pages", &self.pages)
            .field("own_recorder", &self.own_recorder)
            .finish_non_exhaustive()
    }
}

impl Registry {
    /// Publishes the figures of all pools as they are now, and renders everything that the
    /// recorder of `handle` has, in Prometheus' text format: the body of `/metrics`, for people
    /// with an HTTP server of their own.
    ///
    /// The recorder has to be the one in force, see [`publish`](Self::publish), and somebody has
    /// to run its upkeep: see `PrometheusBuilder::install_recorder`.
    ///
    /// ```
    /// use datafusion_counting_pool::Registry;
    /// use metrics_exporter_prometheus::PrometheusBuilder;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let handle = PrometheusBuilder::new().install_recorder()?;
    /// // in the handler of GET /metrics:
    /// let body: String = Registry::global().render(&handle);
    /// # Ok(())
    /// # }
    /// ```
    pub fn render(&self, handle: &PrometheusHandle) -> String {
        self.publish();
        handle.render()
    }
}
