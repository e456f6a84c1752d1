//! The memory behind arrays, each allocation once.

use std::collections::HashSet;

use arrow::array::{Array, ArrayData};
use arrow::buffer::Buffer;

/// The distinct allocations behind a set of arrays.
///
/// Charging each array's memory size would count shared buffers several times, charging slices
/// would miss what they pin. An allocation is told by where it starts and how long it is; it stays
/// alive, and its address its own, as long as an array of the set holds it.
#[derive(Debug, Default)]
pub(super) struct Allocations {
    seen: HashSet<(usize, usize)>,
}

impl Allocations {
    /// Adds what is behind `array`, and gives the bytes that were not there before.
    pub(super) fn add(&mut self, array: &dyn Array) -> usize {
        self.add_data(&array.to_data())
    }

    /// Forgets everything: the arrays have gone.
    pub(super) fn clear(&mut self) {
        self.seen = HashSet::new();
    }

    fn add_data(&mut self, data: &ArrayData) -> usize {
        let nulls = data
            .nulls()
            .map_or(0, |nulls| self.add_buffer(nulls.buffer()));
        let buffers: usize = data
            .buffers()
            .iter()
            .map(|buffer| self.add_buffer(buffer))
            .sum();
        let children: usize = data
            .child_data()
            .iter()
            .map(|child| self.add_data(child))
            .sum();
        nulls + buffers + children
    }

    fn add_buffer(&mut self, buffer: &Buffer) -> usize {
        let capacity = buffer.capacity();
        let start = buffer.data_ptr().as_ptr() as usize;
        if capacity > 0 && self.seen.insert((start, capacity)) {
            capacity
        } else {
            0
        }
    }
}
