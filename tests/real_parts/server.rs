//! A Prometheus server that scrapes once a second.

use std::fs::{File, write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::programs::{Running, free_address};
use crate::{http, kept, shipped, until};

pub(crate) struct Prometheus {
    address: SocketAddr,
    _server: Running,
    _data: TempDir,
}

/// One series of an answer: its labels, and a value, or several with their times.
pub(crate) type Series = Vec<Value>;

impl Prometheus {
    /// Starts one that scrapes `target`, with the shipped demonstration's configuration.
    pub(crate) fn scraping(target: SocketAddr) -> Self {
        let configuration = std::fs::read_to_string(shipped("live/prometheus.yml")).unwrap();
        let rules = shipped("prometheus/recording-rules.yml");
        let here = configuration
            .replace("127.0.0.1:9184", &target.to_string())
            .replace("../prometheus/recording-rules.yml", rules.to_str().unwrap());
        assert!(here.contains(&target.to_string()), "{here}");
        let path = kept().join("prometheus.yml");
        write(&path, here).unwrap();

        let (address, data) = (free_address(), tempfile::tempdir().unwrap());
        let server = Command::new("prometheus")
            .arg(format!("--config.file={}", path.display()))
            .arg(format!("--storage.tsdb.path={}", data.path().display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(File::create(kept().join("prometheus.log")).unwrap())
            .spawn()
            .expect("prometheus is installed");
        let prometheus = Self {
            address,
            _server: Running(server),
            _data: data,
        };
        until("Prometheus is ready", || {
            http::get(address, "/-/ready")
                .ok()
                .filter(|answer| answer.status == 200)
        });
        prometheus
    }

    /// The series that a query gives now.
    #[track_caller]
    pub(crate) fn query(&self, query: &str) -> Series {
        let path = format!("/api/v1/query?query={}", percent_encoded(query));
        let answer = http::get(self.address, &path).unwrap().body;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        answer["data"]["result"].as_array().unwrap().clone()
    }

    /// The one number that a query gives now.
    #[track_caller]
    pub(crate) fn number(&self, query: &str) -> f64 {
        let series = self.query(query);
        assert_eq!(series.len(), 1, "{query}: {series:?}");
        number(&series[0]["value"][1])
    }
}

/// Prometheus writes numbers as strings.
pub(crate) fn number(value: &Value) -> f64 {
    value.as_str().unwrap().parse().unwrap()
}

fn percent_encoded(text: &str) -> String {
    let encoded = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encoded).collect()
}
