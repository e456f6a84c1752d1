//! The thread that serves.

use super::PrometheusServerError;
use super::site::Site;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// What `metrics-exporter-prometheus` takes where it runs upkeep itself.
const UPKEEP: Duration = Duration::from_secs(5);
/// After a connection was not accepted: there may be no file descriptor left, and trying again
/// at once would keep a core busy.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(address: SocketAddr, site: Site) -> Result<Self, PrometheusServerError> {
        let (listener, address) =
            bind(address).map_err(|source| PrometheusServerError::Address { address, source })?;
        let (stop, stopped) = oneshot::channel();
        let (ready, started) = mpsc::channel();
        let run = move || match listen(listener) {
            Ok((runtime, listener)) => {
                // Whoever waits for this is there until it comes.
                let _ = ready.send(Ok(()));
                runtime.block_on(serve(listener, Arc::new(site), stopped));
            }
            Err(error) => {
                let _ = ready.send(Err(error));
            }
        };
        let thread = thread::Builder::new()
            .name("memory-pool-metrics".into())
            .spawn(run)
            .map_err(PrometheusServerError::Thread)?;
        let died = || Err(io::Error::other("it ended at once"));
        started
            .recv()
            .unwrap_or_else(|_| died())
            .map_err(PrometheusServerError::Thread)?;
        Ok(Self {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns when the port is free.
    pub(super) fn stop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // Had it panicked, nothing would be served any more: that is what is wanted.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn bind(address: SocketAddr) -> io::Result<(std::net::TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// On the thread itself: a runtime must not be dropped on a thread of another one.
fn listen(listener: std::net::TcpListener) -> io::Result<(tokio::runtime::Runtime, TcpListener)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let listener = {
        let _entered = runtime.enter();
        TcpListener::from_std(listener)?
    };
    Ok((runtime, listener))
}

async fn serve(listener: TcpListener, site: Arc<Site>, mut stopped: oneshot::Receiver<()>) {
    let mut upkeep = interval(UPKEEP);
    upkeep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = &mut stopped => return,
            _ = upkeep.tick() => site.run_upkeep(),
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    tokio::spawn(connection(stream, Arc::clone(&site)));
                }
                Err(error) => {
                    log::warn!("Cannot accept a connection for metrics: {error}");
                    sleep(PAUSE).await;
                }
            },
        }
    }
}

async fn connection(stream: TcpStream, site: Arc<Site>) {
    let answer = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
        let response = site.answer(request.method(), request.uri().path());
        async { Ok::<_, Infallible>(response) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), answer)
        .await;
    if let Err(error) = served {
        log::debug!("A connection for metrics broke off: {error}");
    }
}
