//! What a repartitioner should do, slowly.

use std::collections::{HashMap, HashSet};

use arrow::array::{Array, ArrayData, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Each row as text: two rows are the same if they read the same.
pub(crate) fn rows(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::new()
        .with_null("null")
        .with_quoted_strings(true);
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
        .collect();
    (0..batch.num_rows())
        .map(|row| {
            columns
                .iter()
                .map(|column| column.value(row).to_string() + ";")
                .collect()
        })
        .collect()
}

/// The reservation of one repartitioner in a pool of its own.
pub(crate) struct Accounts {
    pub(crate) indexed: bool,
    pub(crate) partitions: usize,
    pub(crate) step: usize,
    pub(crate) limit: Option<usize>,
    /// Bytes the pool has.
    pub(crate) pool: usize,
    /// Calls that it denies even so, by their number among those that acquire.
    pub(crate) denied: HashSet<usize>,

    pub(crate) acquisitions: usize,
    pub(crate) spills: u64,
    pub(crate) spilled: u64,
    pub(crate) buffered: u64,
    size: usize,
    reserved: usize,
    bookkeeping: usize,
    seen: HashSet<(usize, usize)>,
    capacities: HashMap<u32, (usize, usize)>,
}

impl Accounts {
    pub(crate) fn new(indexed: bool, partitions: usize, step: usize, limit: Option<usize>) -> Self {
        Self {
            indexed,
            partitions,
            step: limit.map_or(step, |limit| step.min(limit / 8)),
            limit,
            pool: usize::MAX,
            denied: HashSet::new(),
            acquisitions: 0,
            spills: 0,
            spilled: 0,
            buffered: 0,
            size: 0,
            reserved: 0,
            bookkeeping: 0,
            seen: HashSet::new(),
            capacities: HashMap::new(),
        }
    }

    /// A batch of at most the batch size comes in, its rows going to these partitions.
    pub(crate) fn insert(&mut self, batch: &RecordBatch, partitions: &[u32]) {
        let mut bytes = 0;
        for column in batch.columns() {
            self.allocations(&column.to_data(), &mut bytes);
        }
        if self.indexed {
            let mut counts: HashMap<u32, usize> = HashMap::new();
            for partition in partitions {
                *counts.entry(*partition).or_default() += 1;
            }
            for (partition, count) in counts {
                let (len, capacity) = self.capacities.entry(partition).or_default();
                *len += count;
                if len > capacity {
                    let grown = (*capacity * 2).max(*len).max(4);
                    bytes += 8 * (grown - *capacity);
                    *capacity = grown;
                }
            }
        }
        self.buffered += bytes as u64;
        self.size += bytes;
        let granted = self.size <= self.reserved || {
            let deficit = self.size - self.reserved;
            let stepped = deficit.max(self.step);
            self.ask(stepped) || (stepped > deficit && self.ask(deficit))
        };
        if !granted || self.limit.is_some_and(|limit| self.size > limit) {
            self.spill();
        }
    }

    fn ask(&mut self, bytes: usize) -> bool {
        let denied = self.denied.contains(&self.acquisitions);
        self.acquisitions += 1;
        let fits = !denied && self.reserved + self.bookkeeping + bytes <= self.pool;
        if fits {
            self.reserved += bytes;
        }
        fits
    }

    fn spill(&mut self) {
        self.spills += 1;
        self.spilled += self.size as u64;
        (self.size, self.reserved) = (0, 0);
        self.seen.clear();
        self.capacities.clear();
        self.bookkeeping += 16 * self.partitions;
        self.acquisitions += 1;
    }

    fn allocations(&mut self, data: &ArrayData, bytes: &mut usize) {
        let nulls = data.nulls().map(|nulls| nulls.inner().inner());
        for buffer in data.buffers().iter().chain(nulls) {
            if self
                .seen
                .insert((buffer.data_ptr().as_ptr() as usize, buffer.capacity()))
            {
                *bytes += buffer.capacity();
            }
        }
        for child in data.child_data() {
            self.allocations(child, bytes);
        }
    }
}
