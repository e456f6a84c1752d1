//! The last few denials.

use crate::consumers::Consumers;
use crate::snapshot::{Denial, Holder};
use crate::sync::Mutex;
use datafusion_execution::memory_pool::MemoryConsumer;
use std::collections::VecDeque;

/// Denials kept.
const KEPT: usize = 16;
/// Holders named in each.
const HOLDERS: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Denials(Mutex<Record>);

#[derive(Debug, Default)]
struct Record {
    seen: u64,
    last: VecDeque<Denial>,
}

impl Denials {
    pub(super) fn record(
        &self,
        consumer: &MemoryConsumer,
        asked_bytes: u64,
        held_bytes: u64,
        consumers: &Consumers,
    ) {
        let largest_holders = consumers
            .largest_holders(HOLDERS)
            .into_iter()
            .map(|(consumer, id, reserved_bytes)| Holder {
                consumer,
                id,
                reserved_bytes,
            })
            .collect();
        let mut record = self.0.lock();
        record.seen += 1;
        if record.last.len() == KEPT {
            record.last.pop_front();
        }
        let number = record.seen;
        record.last.push_back(Denial {
            number,
            consumer: consumer.name().into(),
            id: consumer.id(),
            asked_bytes,
            held_bytes,
            largest_holders,
        });
    }

    pub(super) fn read(&self) -> Vec<Denial> {
        self.0.lock().last.iter().cloned().collect()
    }
}
