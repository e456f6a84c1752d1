//! The page, in a browser without a window.

use std::net::SocketAddr;

use crate::kept;
use crate::programs::run;

/// Enough for the page to have asked for its figures twice.
const PAGE_TIME: &str = "--virtual-time-budget=2500";

/// The page as the browser has it after its script has run.
#[derive(Debug)]
pub(crate) struct Page(String);

pub(crate) fn open(address: SocketAddr) -> Page {
    let dom = chromium(&["--dump-dom"], address);
    assert!(dom.contains("</html>"), "{dom}");
    Page(dom)
}

/// Keeps a picture of the page.
pub(crate) fn screenshot(address: SocketAddr, name: &str, dark: bool) {
    let path = kept().join(format!("{name}.png"));
    let _ = std::fs::remove_file(&path);
    let picture = format!("--screenshot={}", path.display());
    let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!dark));
    chromium(&["--window-size=1280,900", &picture, &scheme], address);
    let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
    assert!(bytes > 10_000, "{}: {bytes} bytes", path.display());
    println!("screenshot: {}", path.display());
}

fn chromium(arguments: &[&str], address: SocketAddr) -> String {
    let profile = tempfile::tempdir().unwrap();
    let profile = format!("--user-data-dir={}", profile.path().display());
    let address = format!("http://{address}/");
    let fixed = [
        "--headless=new",
        // Root, as a container's user often is, has no sandbox.
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        PAGE_TIME,
        &profile,
    ];
    let said = run(
        "chromium",
        fixed.iter().chain(arguments).chain([&&*address]),
        "",
    );
    assert!(said.content, "{}", said.text);
    said.text
}

impl Page {
    /// The text of the element with this id.
    #[track_caller]
    pub(crate) fn text(&self, id: &str) -> &str {
        let (_, after) = self.0.split_once(&format!("id=\"{id}\"")).expect(id);
        let (_, after) = after.split_once('>').expect(id);
        after.split_once("</").expect(id).0
    }

    /// Whether the text stands anywhere.
    pub(crate) fn contains(&self, text: &str) -> bool {
        self.0.contains(text)
    }
}
