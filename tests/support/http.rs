//! The least of an HTTP client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than any answer takes; a test that hangs should say where.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Lines of the head after the first, as they came.
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

pub(crate) fn get(address: SocketAddr, path: &str) -> std::io::Result<Response> {
    request(address, "GET", path)
}

/// In HTTP 1.0, so that no answer comes in chunks.
pub(crate) fn request(address: SocketAddr, method: &str, path: &str) -> std::io::Result<Response> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: {address}\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let broken = || std::io::Error::other(format!("no HTTP: {text:?}"));
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(broken)?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    Ok(Response {
        status: status.and_then(|s| s.parse().ok()).ok_or_else(broken)?,
        headers: lines.map(str::to_owned).collect(),
        body: body.to_owned(),
    })
}
