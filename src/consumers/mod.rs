//! From a consumer to its counters, and what becomes of them when it has gone.

mod folded;
mod table;

pub(crate) use folded::{Folded, Rows};
pub(crate) use table::Table;

use crate::counters::Block;
use crate::figures::Figures;
use crate::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Consumers that a pool holds without growing its table.
const FIRST_LENGTH: usize = 64;

/// The consumers of one pool.
///
/// Counting finds a consumer's block without a lock. Registering, unregistering and reading
/// share one, which no call of the wrapped pool is made under, and no `grow`, `try_grow` or
/// `shrink` takes unless it was denied.
#[derive(Debug)]
pub(crate) struct Consumers {
    blocks: Table<Block>,
    /// Counts for consumers that never registered here.
    strangers: Block,
    registry: Mutex<Registry>,
}

#[derive(Debug, Default)]
struct Registry {
    live: BTreeMap<usize, Live>,
    folded: Folded,
}

#[derive(Debug, Clone)]
struct Live {
    name: Arc<str>,
    can_spill: bool,
    registrations: u64,
    unregistrations: u64,
}

/// One consumer that is registered now.
#[derive(Debug, Clone)]
pub(crate) struct LiveConsumer {
    pub(crate) id: usize,
    pub(crate) name: Arc<str>,
    pub(crate) can_spill: bool,
    pub(crate) figures: Figures,
}

/// All consumers at one moment: each is in exactly one place.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    /// By id.
    pub(crate) live: Vec<LiveConsumer>,
    pub(crate) folded: Folded,
    pub(crate) strangers: Figures,
}

impl Default for Consumers {
    fn default() -> Self {
        Self::with_first_length(FIRST_LENGTH)
    }
}

impl Consumers {
    pub(crate) fn with_first_length(length: usize) -> Self {
        Self {
            blocks: Table::new(length),
            strangers: Block::default(),
            registry: Mutex::default(),
        }
    }

    pub(crate) fn register(&self, id: usize, name: &str, can_spill: bool) {
        let mut registry = self.registry.lock();
        let live = registry.live.entry(id).or_insert_with(|| {
            // Where the table can grow no more, its calls count as a stranger's.
            self.blocks.insert(id);
            Live {
                name: name.into(),
                can_spill,
                registrations: 0,
                unregistrations: 0,
            }
        });
        live.registrations += 1;
    }

    /// Folds the consumer's figures into those of its name, and gives the bytes that it still
    /// held.
    pub(crate) fn unregister(&self, id: usize, name: &str) -> u64 {
        let mut registry = self.registry.lock();
        let Registry { live, folded } = &mut *registry;
        let Some(consumer) = live.get_mut(&id) else {
            let unknown = Figures {
                unregistrations: 1,
                ..Figures::default()
            };
            folded.add(&name.into(), &unknown);
            return 0;
        };
        consumer.unregistrations += 1;
        if consumer.unregistrations < consumer.registrations {
            return 0;
        }
        let figures = self.blocks.remove(id, |block| {
            let figures = block.read();
            block.reset();
            figures
        });
        let figures = consumer.complete(figures.unwrap_or_default());
        folded.add(&consumer.name, &figures);
        live.remove(&id);
        figures.reserved_bytes
    }

    /// The counters of a consumer.
    #[inline]
    pub(crate) fn block(&self, id: usize) -> &Block {
        self.blocks.get(id).unwrap_or(&self.strangers)
    }

    pub(crate) fn read(&self) -> Reading {
        let registry = self.registry.lock();
        Reading {
            live: registry
                .live
                .iter()
                .map(|(&id, consumer)| {
                    let figures = self.blocks.get(id).map(Block::read).unwrap_or_default();
                    LiveConsumer {
                        id,
                        name: Arc::clone(&consumer.name),
                        can_spill: consumer.can_spill,
                        figures: consumer.complete(figures),
                    }
                })
                .collect(),
            folded: registry.folded.clone(),
            strangers: self.strangers.read(),
        }
    }

    /// The consumers that hold the most now, as `(name, id, bytes)`, at most `most` of them.
    pub(crate) fn largest_holders(&self, most: usize) -> Vec<(Arc<str>, usize, u64)> {
        let registry = self.registry.lock();
        let mut holders: Vec<_> = registry
            .live
            .iter()
            .filter_map(|(&id, consumer)| {
                let held = self.blocks.get(id)?.reserved();
                (held > 0).then_some((&consumer.name, id, held))
            })
            .collect();
        holders.sort_unstable_by_key(|&(_, id, held)| (std::cmp::Reverse(held), id));
        holders
            .into_iter()
            .take(most)
            .map(|(name, id, held)| (Arc::clone(name), id, held))
            .collect()
    }
}

impl Live {
    /// The block counts calls; who registered is known here.
    fn complete(&self, figures: Figures) -> Figures {
        Figures {
            registrations: self.registrations,
            unspillable_registrations: if self.can_spill {
                0
            } else {
                self.registrations
            },
            unregistrations: self.unregistrations,
            ..figures
        }
    }
}
