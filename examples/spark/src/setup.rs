//! What `fetch.py` has left in the user's cache folder.

use std::error::Error;
use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Where the jars of Spark or the compiled classes are not as they should be, and how to get
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotSetUp {
    what: String,
}

impl Display for NotSetUp {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}. `python3 {}/fetch.py` downloads the jars of Spark and compiles the classes; it \
             needs pip and a JDK of version 17 or later",
            self.what,
            env!("CARGO_MANIFEST_DIR")
        )
    }
}

impl Error for NotSetUp {}

macro_rules! source {
    ($name:literal) => {
        (
            concat!("org/apache/spark/memory/counting/", $name, ".java"),
            include_str!(concat!(
                "../java/org/apache/spark/memory/counting/",
                $name,
                ".java"
            )),
        )
    };
}

/// The Java sources that this crate was built with, by their path.
const SOURCES: [(&str, &str); 4] = [
    source!("NativeTaskMemory"),
    source!("OffHeapExecutor"),
    source!("SpillingConsumer"),
    source!("TaskThread"),
];

/// The class path with Spark's jars and this package's classes.
///
/// # Errors
///
/// Where `fetch.py` has not been run, or not since the Java sources changed.
pub fn class_path() -> Result<String, NotSetUp> {
    let folder = cache_folder().ok_or_else(|| NotSetUp {
        what: "There is no cache folder: neither XDG_CACHE_HOME nor HOME is set".to_owned(),
    })?;
    let file = folder.join("datafusion-counting-pool/spark-4.1.3/classpath");
    let class_path = fs::read_to_string(&file).map_err(|error| NotSetUp {
        what: format!(
            "The class path of Spark cannot be read from {}: {error}",
            file.display()
        ),
    })?;
    let paths: Vec<PathBuf> = env::split_paths(&class_path).collect();
    if let Some(missing) = paths.iter().find(|path| !path.exists()) {
        return Err(NotSetUp {
            what: format!("{} is missing", missing.display()),
        });
    }
    match paths.first() {
        Some(classes) if are_current(classes) => Ok(class_path),
        _ => Err(NotSetUp {
            what: format!(
                "The classes of {} are of other sources than these",
                file.display()
            ),
        }),
    }
}

/// The script keeps the sources with the classes that were made of them.
fn are_current(classes: &Path) -> bool {
    SOURCES.iter().all(|(path, source)| {
        fs::read_to_string(classes.join(path)).is_ok_and(|compiled| compiled == *source)
    })
}

fn cache_folder() -> Option<PathBuf> {
    match env::var_os("XDG_CACHE_HOME") {
        Some(folder) if !folder.is_empty() => Some(PathBuf::from(folder)),
        _ => env::home_dir().map(|home| home.join(".cache")),
    }
}
