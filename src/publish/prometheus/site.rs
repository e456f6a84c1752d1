//! What is served.

use crate::publish::Registry;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response, StatusCode};
use metrics_exporter_prometheus::PrometheusRecorder;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

const METRICS: &str = "/metrics";
/// Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

pub(super) struct Page {
    path: String,
    content_type: &'static str,
    body: Box<dyn Fn() -> String + Send + Sync>,
}

impl Page {
    pub(super) fn new(
        path: String,
        content_type: &'static str,
        body: impl Fn() -> String + Send + Sync + 'static,
    ) -> Self {
        Self {
            path,
            content_type,
            body: Box::new(body),
        }
    }
}

impl Debug for Page {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

pub(super) struct Site {
    recorder: Arc<PrometheusRecorder>,
    registry: Registry,
    pages: Vec<Page>,
}

impl Site {
    pub(super) fn new(
        recorder: Arc<PrometheusRecorder>,
        registry: Registry,
        pages: Vec<Page>,
    ) -> Self {
        Self {
            recorder,
            registry,
            pages,
        }
    }

    pub(super) fn answer(&self, method: &Method, path: &str) -> Response<String> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut refusal = response(PLAIN, format!("{method} is not served, GET is\n"));
            *refusal.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            let allowed = HeaderValue::from_static("GET, HEAD");
            refusal.headers_mut().insert(ALLOW, allowed);
            return refusal;
        }
        if path == METRICS {
            return response(METRICS_TYPE, self.metrics());
        }
        if let Some(page) = self.pages.iter().find(|page| page.path == path) {
            return response(page.content_type, (page.body)());
        }
        let paths: Vec<_> = self.pages.iter().map(|page| page.path.as_str()).collect();
        let paths = [&[METRICS], &paths[..]].concat().join(", ");
        let mut missing = response(PLAIN, format!("{path} is not served, {paths} is\n"));
        *missing.status_mut() = StatusCode::NOT_FOUND;
        missing
    }

    /// What the exporter has to do every few seconds: other parts of the process may publish
    /// histograms, whose samples pile up between scrapes.
    pub(super) fn run_upkeep(&self) {
        self.recorder.handle().run_upkeep();
    }

    fn metrics(&self) -> String {
        metrics::with_local_recorder(&*self.recorder, || {
            self.registry.render(&self.recorder.handle())
        })
    }
}

fn response(content_type: &'static str, body: String) -> Response<String> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
