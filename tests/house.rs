//! Data flows one way: each module uses only what stands above it in this table, and nothing
//! that the table does not name.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A module, and the modules of the crate that it may use.
const MODULES: &[(&str, &[&str])] = &[
    ("sync", &[]),
    ("exhausted", &[]),
    ("operator_name", &[]),
    ("figures", &[]),
    ("counters", &["sync", "figures"]),
    (
        "consumers",
        &["sync", "operator_name", "figures", "counters"],
    ),
    (
        "snapshot",
        &["operator_name", "figures", "counters", "consumers"],
    ),
    (
        "counting_pool",
        &["sync", "exhausted", "counters", "consumers", "snapshot"],
    ),
    ("fault_pool", &[]),
    ("stepped_reservation", &["exhausted"]),
    ("repartition", &["exhausted", "stepped_reservation"]),
    ("spark", &[]),
    (
        "publish",
        &["operator_name", "figures", "snapshot", "counting_pool"],
    ),
];

/// The modules that the code of a folder or file names with `crate::`. Documentation may name
/// what it likes.
fn used(path: &Path, used_by: &mut BTreeSet<String>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            used(&entry.unwrap().path(), used_by);
        }
        return;
    }
    if path.extension().is_none_or(|extension| extension != "rs") {
        return;
    }
    let text = fs::read_to_string(path).unwrap();
    for line in text
        .lines()
        .map(str::trim_start)
        .filter(|line| !line.starts_with("//"))
    {
        for name in line.split("crate::").skip(1) {
            let name: String = name
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect();
            used_by.insert(name);
        }
    }
}

#[test]
fn each_module_uses_only_what_stands_above_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut above = BTreeSet::new();
    for (module, may_use) in MODULES {
        for allowed in *may_use {
            assert!(above.contains(allowed), "{allowed} stands below {module}");
        }
        let folder = src.join(module);
        let path = if folder.is_dir() {
            folder
        } else {
            src.join(format!("{module}.rs"))
        };
        let mut names = BTreeSet::new();
        used(&path, &mut names);
        names.remove(*module);
        for name in names {
            assert!(may_use.contains(&&*name), "{module} uses {name}");
        }
        above.insert(*module);
    }
}

#[test]
fn the_table_names_every_module() {
    let named: BTreeSet<_> = MODULES
        .iter()
        .map(|(module, _)| (*module).to_owned())
        .collect();
    let there: BTreeSet<_> = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
        .unwrap()
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|module| module != "lib")
        .collect();
    assert_eq!(named, there);
}
