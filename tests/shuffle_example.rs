//! The example `shuffle` as its users run it: the figures it reports to the byte, the inputs it
//! takes, and how it refuses.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use parquet::arrow::ArrowWriter;
use serde_json::Value;
use tempfile::{TempDir, tempdir};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Runs the example, which `cargo test` builds beside the tests, with an empty temporary folder
/// that must be empty again when it has ended.
fn shuffle(args: &[&str]) -> Output {
    let tests = std::env::current_exe().expect("the path of this test");
    let program = tests
        .parent()
        .and_then(Path::parent)
        .expect("tests are built into a folder beside the examples'")
        .join("examples")
        .join(format!("shuffle{}", std::env::consts::EXE_SUFFIX));
    let temporary = tempdir().expect("a temporary folder");
    let output = Command::new(&program)
        .args(args)
        .env("TMPDIR", temporary.path())
        .output()
        .unwrap_or_else(|error| {
            let program = program.display();
            panic!("{program}: {error}; `cargo build --example shuffle` builds it")
        });
    let left = std::fs::read_dir(temporary.path())
        .expect("it is there")
        .count();
    assert_eq!(left, 0, "files left behind by {args:?}");
    output
}

/// The report, where the run succeeds and standard error stays silent.
fn report(args: &[&str]) -> String {
    let output = shuffle(args);
    assert_eq!(text(&output.stderr), "", "{args:?}");
    assert!(output.status.success(), "{args:?}: {}", output.status);
    text(&output.stdout).to_owned()
}

fn json(args: &[&str]) -> Value {
    let args = [args, &["--json", "--rounds", "1"]].concat();
    serde_json::from_str(&report(&args)).expect("one JSON object and nothing else")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the example prints UTF-8")
}

/// A figure of one side, by its JSON pointer.
fn number(side: &Value, pointer: &str) -> u64 {
    side.pointer(pointer)
        .and_then(Value::as_u64)
        .unwrap_or_else(|| panic!("no number {pointer} in {side}"))
}

/// What the pool granted has been given back, call by call and byte by byte.
fn assert_released(side: &Value) {
    assert_eq!(
        number(side, "/released_bytes"),
        number(side, "/acquired_bytes")
    );
    assert!(number(side, "/peak_bytes") <= number(side, "/acquired_bytes"));
}

/// The requests of a task whose batches are `batches` times one Int32 column of 8,192 rows, by the
/// rules of the reservation and of `Vec`: 32 KiB of values a batch and 8 bytes an index entry,
/// whose capacity at least doubles, and no request below the step.
fn requests_of_a_task(batches: u64, step: u64) -> Vec<u64> {
    let (mut requests, mut used, mut reserved, mut capacity) = (Vec::new(), 0, 0, 0);
    for batch in 1..=batches {
        let rows = batch * 8192;
        let grown = if rows > capacity {
            rows.max(2 * capacity)
        } else {
            capacity
        };
        used += 32 * KIB + 8 * (grown - capacity);
        capacity = grown;
        if used > reserved {
            requests.push(step.max(used - reserved));
            reserved += step.max(used - reserved);
        }
    }
    requests
}

fn assert_keys(object: &Value, expected: &[&str]) {
    let keys: BTreeSet<&str> = object
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(keys, expected.iter().copied().collect());
}

#[test]
fn the_keys_are_the_documented_ones() {
    let report = json(&["--tasks", "2", "--batches", "2"]);
    assert_keys(
        &report,
        &[
            "tasks",
            "rows",
            "partitions",
            "exact",
            "stepped",
            "outputs_equal",
        ],
    );
    for side in [&report["exact"], &report["stepped"]] {
        let numbers = [
            "step_bytes",
            "acquires",
            "acquires_of_most_frequent_size",
            "most_frequent_size_bytes",
            "acquired_bytes",
            "denied",
            "releases",
            "released_bytes",
            "spills",
            "spilled_bytes",
            "peak_bytes",
            "acquire_time_ns",
            "release_time_ns",
            "elapsed_ns",
        ];
        assert_keys(side, &[&numbers[..], &["per_task"]].concat());
        for key in numbers {
            number(side, &format!("/{key}"));
        }
        for task in side["per_task"].as_array().expect("one object a task") {
            assert_keys(task, &["acquires", "acquired_bytes", "releases", "spills"]);
        }
    }
}

#[test]
fn the_default_workload_gives_the_published_figures() {
    let report = json(&[]);
    assert_eq!(number(&report, "/tasks"), 5);
    assert_eq!(number(&report, "/rows"), 10_485_760);
    assert_eq!(number(&report, "/partitions"), 201);
    assert_eq!(report["outputs_equal"], true);

    let exact = &report["exact"];
    assert_eq!(number(exact, "/step_bytes"), 0);
    assert_eq!(number(exact, "/acquires"), 5 * 256);
    assert_eq!(number(exact, "/acquires_of_most_frequent_size"), 5 * 247);
    assert_eq!(number(exact, "/most_frequent_size_bytes"), 32 * KIB);
    assert_eq!(number(exact, "/acquired_bytes"), 5 * 25_165_824);

    let stepped = &report["stepped"];
    assert_eq!(number(stepped, "/step_bytes"), MIB);
    assert_eq!(number(stepped, "/acquires"), 5 * 13);
    let whole_steps = requests_of_a_task(256, MIB)
        .iter()
        .filter(|&&bytes| bytes == MIB)
        .count();
    assert_eq!(
        number(stepped, "/acquires_of_most_frequent_size"),
        5 * whole_steps as u64
    );
    assert_eq!(number(stepped, "/most_frequent_size_bytes"), MIB);
    assert_eq!(number(stepped, "/acquired_bytes"), 5 * 25_198_592);

    for (side, acquires, bytes) in [(exact, 256, 25_165_824), (stepped, 13, 25_198_592)] {
        assert_eq!(number(side, "/releases"), 5);
        assert_eq!(number(side, "/denied") + number(side, "/spills"), 0);
        assert_eq!(number(side, "/spilled_bytes"), 0);
        assert!((bytes..=5 * bytes).contains(&number(side, "/peak_bytes")));
        assert!(number(side, "/elapsed_ns") > number(side, "/acquire_time_ns") / 5);
        assert_released(side);
        let tasks = side["per_task"].as_array().expect("one object a task");
        assert_eq!(tasks.len(), 5);
        for task in tasks {
            assert_eq!(number(task, "/acquires"), acquires);
            assert_eq!(number(task, "/acquired_bytes"), bytes);
            assert_eq!(number(task, "/releases"), 1);
            assert_eq!(number(task, "/spills"), 0);
        }
    }
}

#[test]
fn the_hot_partition_takes_what_the_rules_say_at_any_size() {
    for (batches, step) in [(1, "1MiB"), (40, "64KiB"), (40, "1"), (40, "3000000")] {
        let report = json(&[
            "--tasks",
            "2",
            "--batches",
            &batches.to_string(),
            "--step",
            step,
        ]);
        for (side, step) in [
            ("exact", 0),
            ("stepped", number(&report, "/stepped/step_bytes")),
        ] {
            let requests = requests_of_a_task(batches, step);
            for task in report[side]["per_task"]
                .as_array()
                .expect("one object a task")
            {
                assert_eq!(
                    number(task, "/acquires"),
                    requests.len() as u64,
                    "{batches} {step}"
                );
                assert_eq!(
                    number(task, "/acquired_bytes"),
                    requests.iter().sum::<u64>()
                );
            }
        }
    }
}

#[test]
fn the_table_is_calm() {
    let one = report(&["--tasks", "1", "--batches", "8", "--rounds", "2"]);
    let several = report(&[
        "--tasks",
        "3",
        "--batches",
        "40",
        "--key",
        "random",
        "--partitions",
        "7",
    ]);
    for report in [&one, &several] {
        for line in report.lines() {
            assert!(
                line.chars().count() <= 100 && line.trim_end() == line,
                "{line:?}"
            );
        }
        for row in [
            "acquires",
            "bytes acquired",
            "releases",
            "denials",
            "spills",
            "time in the pool",
            "p99",
        ] {
            assert!(
                report
                    .lines()
                    .any(|line| line.trim_start().starts_with(row)),
                "{row}:\n{report}"
            );
        }
    }
    assert!(
        one.contains("the same rows to the same partitions: 65,536,"),
        "{one}"
    );
    // 8 requests exactly: 4 of 32 KiB, and 4 with a doubling of the index; one step does for all.
    let acquires: Vec<&str> = row(&one, "acquires");
    assert_eq!(acquires, ["8", "1"], "{one}");
    assert!(
        several.contains("3 tasks") && several.contains("7 partitions"),
        "{several}"
    );
    assert!(several.contains("983,040 rows"), "{several}");
}

/// The cells of a row of the table.
fn row<'a>(report: &'a str, label: &str) -> Vec<&'a str> {
    let line = report.lines().find_map(|line| line.strip_prefix(label));
    line.unwrap_or_else(|| panic!("no {label}:\n{report}"))
        .split_whitespace()
        .collect()
}

#[test]
fn the_files_are_kept_where_asked() {
    let folder = tempdir().expect("a temporary folder");
    let out = folder.path().join("new").join("folder");
    let args = [
        "--tasks",
        "2",
        "--batches",
        "3",
        "--key",
        "sequence",
        "--partitions",
        "5",
        "--out",
    ];
    let report = report(&[&args[..], &[path(&out), "--compression", "zstd"]].concat());
    assert!(report.contains(path(&out)), "{report}");
    let mut names: Vec<_> = std::fs::read_dir(&out)
        .expect("the folder was made")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    names.sort();
    let expected = ["exact", "stepped"].iter().flat_map(|side| {
        (0..2)
            .flat_map(move |task| ["", ".index"].map(|end| format!("{side}-task-{task}.data{end}")))
    });
    assert_eq!(names, expected.collect::<Vec<_>>());
    let index = std::fs::metadata(out.join("exact-task-1.data.index")).expect("the index");
    assert_eq!(index.len(), (5 + 1) * 8);
}

/// The same 700 rows as a Parquet file, an Arrow IPC file and an Arrow IPC stream, the latter two
/// in seven batches.
fn inputs() -> (TempDir, [PathBuf; 3]) {
    let batches = (0..7).map(|batch: i64| {
        let ids = Int64Array::from_iter_values((0..100).map(|row| batch * 100 + row));
        let names = StringArray::from_iter(
            (0..100).map(|row| (row % 3 > 0).then(|| format!("name {row}"))),
        );
        let columns = [("id", Arc::new(ids) as ArrayRef), ("name", Arc::new(names))];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
            .expect("columns of one length")
    });
    let folder = tempdir().expect("a temporary folder");
    let paths = ["rows.parquet", "rows.arrow", "rows.arrows"].map(|name| folder.path().join(name));
    let files = paths
        .each_ref()
        .map(|path| std::fs::File::create(path).expect("a new file"));
    let [parquet, ipc_file, ipc_stream] = files;
    let schema = batches.clone().next().expect("seven batches").schema();
    let mut parquet = ArrowWriter::try_new(parquet, Arc::clone(&schema), None).expect("a writer");
    let mut ipc_file = FileWriter::try_new(ipc_file, &schema).expect("a writer");
    let mut ipc_stream = StreamWriter::try_new(ipc_stream, &schema).expect("a writer");
    for batch in batches {
        parquet.write(&batch).expect("room on the disk");
        ipc_file.write(&batch).expect("room on the disk");
        ipc_stream.write(&batch).expect("room on the disk");
    }
    parquet.close().expect("room on the disk");
    ipc_file.finish().expect("room on the disk");
    ipc_stream.finish().expect("room on the disk");
    (folder, paths)
}

#[test]
fn files_are_dealt_out_batch_by_batch() {
    let (_folder, files) = inputs();
    for file in &files {
        let mut args = vec![
            "--input",
            path(file),
            "--hash-columns",
            "id,name",
            "--tasks",
            "3",
        ];
        args.extend(["--partitions", "4", "--compression", "lz4"]);
        if file
            .extension()
            .is_some_and(|extension| extension == "parquet")
        {
            args.extend(["--batch-rows", "100"]);
        }
        let report = json(&args);
        assert_eq!(number(&report, "/rows"), 700, "{args:?}");
        assert_eq!(report["outputs_equal"], true, "{args:?}");
        // Three batches go to the first task, two to each other: with exact growth each has at
        // least a call for its own values.
        let acquires: Vec<u64> = report["exact"]["per_task"]
            .as_array()
            .expect("one object a task")
            .iter()
            .map(|task| number(task, "/acquires"))
            .collect();
        assert_eq!(acquires, [3, 2, 2], "{args:?}");
        assert_released(&report["exact"]);
        assert_released(&report["stepped"]);
    }
}

/// Exit code 2 or 1, nothing on standard output, and one line that says what is wrong.
fn assert_refused(code: i32, args: &[&str], reason: &str) {
    let output = shuffle(args);
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {line}");
    assert_eq!(text(&output.stdout), "", "{args:?}");
    assert!(
        line.starts_with("error: ") && line.contains(reason),
        "{args:?}: {line}"
    );
    assert_eq!(line.lines().count(), 1, "{args:?}: {line}");
    assert!(line.chars().count() < 300, "{args:?}: {line}");
}

#[test]
fn wrong_arguments_are_refused_in_one_line() {
    assert_refused(2, &["--tasks", "0"], "--tasks");
    assert_refused(2, &["--key", "purple"], "constant, sequence, random");
    assert_refused(2, &["--step", "1 parsec"], "64KiB");
    assert_refused(2, &["--hash-columns", "kee"], "the columns are key");
    assert_refused(2, &["--memory", "1MiB"], "--pool greedy");
    assert_refused(2, &["--tpch", "lineitem", "--batches", "3"], "--batches");
    assert_refused(2, &["--tpch", "lineitems"], "lineitem");
    assert_refused(2, &["--out", "/dev/null/folder"], "/dev/null/folder");
    assert_refused(2, &["--fast"], "--fast");
}

/// A file of [`inputs`] with a fault that is found only when its rows are read: in the header of
/// Parquet's first page, or of Arrow IPC's second batch.
fn scratched(whole: &[u8]) -> Vec<u8> {
    let header = if whole.starts_with(b"PAR1") {
        4
    } else {
        let mut messages = whole
            .windows(4)
            .enumerate()
            .filter(|(_, bytes)| bytes == &[0xff; 4]);
        // The schema, the first batch, the second batch, each a marker, a length and a header.
        messages.nth(2).expect("three messages and more").0 + 8
    };
    let mut scratched = whole.to_vec();
    scratched[header..header + 16].fill(0x5a);
    scratched
}

#[test]
fn unreadable_inputs_are_refused_in_one_line() {
    let (folder, files) = inputs();
    let input = |file: &Path, columns: &str, reason: &str| {
        let args = ["--input", path(file), "--hash-columns", columns];
        assert_refused(2, &args, reason);
    };
    input(&folder.path().join("none.parquet"), "id", "none.parquet");
    input(folder.path(), "id", "not a regular file");
    let notes = folder.path().join("notes.parquet");
    std::fs::write(&notes, "remember the milk").expect("room on the disk");
    input(&notes, "id", "neither Parquet nor Arrow IPC");
    std::fs::write(&notes, "").expect("room on the disk");
    input(&notes, "id", "neither Parquet nor Arrow IPC");
    for file in &files {
        input(file, "number", "the columns are id, name");
        assert_refused(2, &["--input", path(file)], "--hash-columns");
        assert_refused(2, &["--input", path(file), "--batches", "3"], "--batches");
    }
    assert_refused(
        2,
        &[
            "--input",
            path(&files[1]),
            "--hash-columns",
            "id",
            "--batch-rows",
            "5",
        ],
        "--batch-rows",
    );

    for file in &files {
        let whole = std::fs::read(file).expect("it was written");
        std::fs::write(file, &whole[..whole.len() / 2]).expect("room on the disk");
        input(file, "id", path(file));
        std::fs::write(file, scratched(&whole)).expect("room on the disk");
        input(file, "id", path(file));
    }
}

#[test]
fn a_run_that_fails_says_so_in_one_line() {
    let folder = tempdir().expect("a temporary folder");
    // Nothing can be written where a folder stands.
    std::fs::create_dir_all(folder.path().join("stepped-task-1.data").join("full"))
        .expect("a folder");
    let args = [
        "--tasks",
        "2",
        "--batches",
        "2",
        "--out",
        path(folder.path()),
    ];
    assert_refused(1, &args, "stepped-task-1.data");
}

fn path(path: &Path) -> &str {
    path.to_str()
        .expect("temporary folders have names in UTF-8")
}

/// Runs lineitem at scale 0.1, or a tenth of it with a tenth of the memory in batches of a tenth
/// of the rows, and checks what holds wherever memory is short.
fn lineitem(scale: &str, options: &[&str]) -> Value {
    let (rows, batch_rows) = match scale {
        "0.1" => (600_572, "8192"),
        _ => (60_175, "819"),
    };
    let input = [
        "--tpch",
        "lineitem",
        "--scale",
        scale,
        "--batch-rows",
        batch_rows,
    ];
    let report = json(&[&input, options].concat());
    assert_eq!(number(&report, "/rows"), rows);
    assert_eq!(report["outputs_equal"], true);
    for side in ["exact", "stepped"] {
        let side = &report[side];
        assert!(number(side, "/spills") > 0, "{side}");
        assert!(number(side, "/spilled_bytes") > 0, "{side}");
        assert_released(side);
    }
    report
}

/// The pool's limit holds but for the spills' ranges, 16 bytes a partition, which are never denied.
fn assert_within(limit: u64, side: &Value) {
    assert!(number(side, "/denied") > 0, "{side}");
    let ranges = 16 * number(side, "/spills") * 201;
    assert!(number(side, "/peak_bytes") <= limit + ranges, "{side}");
}

fn spills_in_a_greedy_pool(scale: &str, memory: &str, bytes: u64) {
    let report = lineitem(scale, &["--pool", "greedy", "--memory", memory]);
    assert_within(bytes, &report["exact"]);
    assert_within(bytes, &report["stepped"]);
}

fn spills_in_a_fair_pool(scale: &str, memory: &str, bytes: u64) {
    let report = lineitem(scale, &["--pool", "fair", "--memory", memory]);
    assert_within(bytes, &report["exact"]);
    assert_within(bytes, &report["stepped"]);
}

fn spills_as_often_before_and_after(scale: &str, limit: &str) {
    let report = lineitem(scale, &["--max-buffer", limit]);
    let [exact, stepped] = [&report["exact"], &report["stepped"]];
    assert_eq!(number(exact, "/denied") + number(stepped, "/denied"), 0);
    assert_eq!(number(exact, "/spills"), number(stepped, "/spills"));
    assert_eq!(
        number(exact, "/spilled_bytes"),
        number(stepped, "/spilled_bytes")
    );
}

#[test]
fn lineitem_spills_in_a_small_greedy_pool() {
    spills_in_a_greedy_pool("0.01", "800KiB", 800 * KIB);
}

#[test]
fn lineitem_spills_in_a_small_fair_pool() {
    spills_in_a_fair_pool("0.01", "800KiB", 800 * KIB);
}

#[test]
fn a_buffer_limit_spills_as_often_before_and_after() {
    spills_as_often_before_and_after("0.01", "400KiB");
}

#[test]
#[ignore = "half a minute each without optimisation"]
fn lineitem_at_a_tenth_spills_in_a_small_greedy_pool() {
    spills_in_a_greedy_pool("0.1", "8MiB", 8 * MIB);
}

#[test]
#[ignore = "half a minute each without optimisation"]
fn lineitem_at_a_tenth_spills_in_a_small_fair_pool() {
    spills_in_a_fair_pool("0.1", "8MiB", 8 * MIB);
}

#[test]
#[ignore = "half a minute each without optimisation"]
fn lineitem_at_a_tenth_spills_as_often_before_and_after() {
    spills_as_often_before_and_after("0.1", "4MiB");
}
