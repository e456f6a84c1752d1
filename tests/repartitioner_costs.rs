//! What a shuffle costs grows with its rows and its partitions, not with their product. Counted are
//! allocations and their bytes, which come out the same on every machine.

#![expect(unsafe_code, reason = "a global allocator, which counts")]

use std::alloc::{GlobalAlloc, Layout as MemoryLayout, System};
use std::cell::Cell;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use datafusion_common::Result;
use datafusion_counting_pool::{Layout, PartitionBy, RepartitionMetrics, Repartitioner};
use datafusion_execution::runtime_env::RuntimeEnv;

struct Counting;

thread_local! {
    static ALLOCATED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

// SAFETY: the system's allocator does all of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: MemoryLayout) -> *mut u8 {
        let (calls, bytes) = ALLOCATED.get();
        ALLOCATED.set((calls + 1, bytes + layout.size() as u64));
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: MemoryLayout) {
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Clone, Copy, Debug)]
struct Shape {
    rows: usize,
    batch_rows: usize,
    partitions: usize,
    /// All rows have the same key.
    hot: bool,
    limit: Option<usize>,
    layout: Layout,
}

#[derive(Debug)]
struct Cost {
    calls: u64,
    bytes: u64,
    metrics: RepartitionMetrics,
}

fn batch(shape: Shape, start: usize) -> RecordBatch {
    let rows = start..shape.rows.min(start + shape.batch_rows);
    let keys: ArrayRef = Arc::new(Int32Array::from_iter_values(
        rows.clone()
            .map(|row| if shape.hot { 7 } else { row as i32 }),
    ));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(
        rows.map(|row| format!("row {row}")),
    ));
    RecordBatch::try_from_iter([("key", keys), ("text", text)]).unwrap()
}

fn cost(shape: Shape) -> Result<Cost> {
    let folder = tempfile::tempdir()?;
    let runtime = Arc::new(RuntimeEnv::default());
    let schema = batch(Shape { rows: 0, ..shape }, 0).schema();
    let mut writer =
        Repartitioner::builder(schema, PartitionBy::hash_columns(["key"], shape.partitions))
            .with_layout(shape.layout)
            .with_max_buffer_bytes(shape.limit)
            .build(0, &runtime)?;
    let mut counted = (0, 0);
    let mut count = |before: (u64, u64)| {
        let after = ALLOCATED.get();
        counted = (
            counted.0 + after.0 - before.0,
            counted.1 + after.1 - before.1,
        );
    };
    for start in (0..shape.rows).step_by(shape.batch_rows) {
        let batch = batch(shape, start);
        let before = ALLOCATED.get();
        writer.insert_batch(batch)?;
        count(before);
    }
    let before = ALLOCATED.get();
    let shuffle = writer.finish(folder.path().join("data"))?;
    count(before);
    let metrics = shuffle.metrics().clone();
    Ok(Cost {
        calls: counted.0,
        bytes: counted.1,
        metrics,
    })
}

/// Twice of everything costs about twice as much.
fn check_linear(shape: Shape) -> Result<()> {
    for layout in [Layout::Indexed, Layout::Reordered] {
        let one = cost(Shape { layout, ..shape })?;
        let two = cost(Shape {
            layout,
            rows: 2 * shape.rows,
            partitions: if shape.hot {
                shape.partitions
            } else {
                2 * shape.partitions
            },
            ..shape
        })?;
        assert!(
            two.calls as f64 <= 2.3 * one.calls as f64,
            "{layout:?}: {one:?}, {two:?}"
        );
        assert!(
            two.bytes as f64 <= 2.3 * one.bytes as f64,
            "{layout:?}: {one:?}, {two:?}"
        );
    }
    Ok(())
}

const FEW_ROWS_EACH: Shape = Shape {
    rows: 15_000,
    batch_rows: 8192,
    partitions: 5_000,
    hot: false,
    limit: None,
    layout: Layout::Indexed,
};

#[test]
fn ten_thousand_partitions_with_few_rows_each() -> Result<()> {
    check_linear(FEW_ROWS_EACH)
}

#[test]
fn ten_thousand_partitions_and_small_batches() -> Result<()> {
    check_linear(Shape {
        batch_rows: 20,
        ..FEW_ROWS_EACH
    })
}

#[test]
fn one_hot_partition() -> Result<()> {
    let shape = Shape {
        rows: 100_000,
        hot: true,
        ..FEW_ROWS_EACH
    };
    check_linear(shape)?;
    check_linear(Shape {
        batch_rows: 100,
        ..shape
    })
}

#[test]
fn spill_rounds() -> Result<()> {
    let spilling = Shape {
        rows: 40_000,
        batch_rows: 500,
        partitions: 300,
        limit: Some(100_000),
        ..FEW_ROWS_EACH
    };
    for layout in [Layout::Indexed, Layout::Reordered] {
        let one = cost(Shape { layout, ..spilling })?;
        let two = cost(Shape {
            layout,
            rows: 2 * spilling.rows,
            ..spilling
        })?;
        let spills = [&one, &two].map(|cost| cost.metrics.spill_count as f64);
        assert!(
            spills[0] >= 4.0 && spills[1] <= 2.5 * spills[0],
            "{spills:?}"
        );
        assert!(
            two.calls as f64 <= 2.3 * one.calls as f64,
            "{layout:?}: {one:?}, {two:?}"
        );
        assert!(
            two.bytes as f64 <= 2.3 * one.bytes as f64,
            "{layout:?}: {one:?}, {two:?}"
        );
    }
    Ok(())
}
