//! Which pools are published, and under which labels.

use super::facade;
use super::labels::{Labels, clean};
use super::reading::{LabelOf, Reading};
use super::totals::{PoolKey, PoolsOfName, Published};
use crate::counting_pool::CountingPool;
use crate::operator_name::operator_name;
use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Display, Formatter};
use std::sync::Arc;

/// Distinct values of the label `consumer` for each pool name, unless set.
const LABEL_BOUND: usize = 200;

static GLOBAL: OnceCell<Registry> = OnceCell::new();

/// Publishes the figures of counting pools through the `metrics` facade.
///
/// A pool is added once and never has to be taken out: the registry does not keep it alive.
/// Pools of the same name are added up, and what a pool had counted when it was dropped stays in
/// the counters. A pool belongs to one registry, and a clone is the same registry.
///
/// ```
/// use datafusion_counting_pool::{CountingPool, Registry};
/// use datafusion_execution::memory_pool::GreedyMemoryPool;
/// use std::sync::Arc;
///
/// let inner = Arc::new(GreedyMemoryPool::new(64 << 20));
/// let pool = Arc::new(CountingPool::new(inner).with_name("sessions"));
/// Registry::global().add(&pool);
/// // whenever figures are wanted, just before an exporter renders them:
/// Registry::global().publish();
/// ```
///
/// Nothing is published by itself: call [`publish`](Self::publish) where figures are read, or
/// from a timer where an exporter cannot be told apart from its listener. Pool calls do not wait
/// for it, and what they count reaches the recorder only there.
///
#[doc = include_str!("metrics.md")]
#[derive(Clone)]
pub struct Registry {
    shared: Arc<Shared>,
}

struct Shared {
    label_of: Box<LabelOf>,
    label_bound: usize,
    expected: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// Held from the first reading to the last series: a value that was read before another is
    /// published before it, so that no gauge is left with an old one.
    publishing: Mutex<()>,
    /// Held for moments only, and not while a pool may be dropped: a pool that goes takes it.
    pools: Mutex<BTreeMap<Arc<str>, PoolsOfName>>,
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl Registry {
    /// A registry of one's own, for a test or for a second recorder in one process.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Options for a registry.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder {
            label_of: Box::new(|consumer| operator_name(consumer).to_owned()),
            label_bound: LABEL_BOUND,
            expected: BTreeMap::new(),
        }
    }

    /// The registry of the process: the one that was [installed](RegistryBuilder::install), or
    /// else one with the default options.
    pub fn global() -> &'static Self {
        GLOBAL.get_or_init(Self::new)
    }

    /// Adds a pool, under the name that
    /// [`CountingPool::with_name`](CountingPool::with_name) gave it. The figures of a name are
    /// kept for as long as the registry is, also when its pools have gone: name pools by what they
    /// are for, not by the query that they serve.
    ///
    /// To add it again changes nothing. `false` where the pool belongs to another registry: it
    /// stays there, and a warning is logged.
    pub fn add(&self, pool: &Arc<CountingPool>) -> bool {
        // Taken now: a pool that is taken out of its `Arc` goes from another address.
        let (key, name) = (PoolKey::of(pool), clean(pool.pool_name()));
        let mut pools = self.shared.pools.lock();
        let registry = Arc::downgrade(&self.shared);
        let of_name = Arc::clone(&name);
        let is_new = pool.tell_when_dropped(Box::new(move |pool| {
            if let Some(registry) = registry.upgrade() {
                registry.retire(&of_name, key, pool);
            }
        }));
        if is_new {
            self.shared.of_name(&mut pools, &name).add(pool);
        }
        let is_ours = pools.get(&name).is_some_and(|pools| pools.contains(key));
        drop(pools);
        if !is_ours {
            log::warn!(
                "Memory pool {:?} belongs to another registry and is published there only",
                pool.pool_name()
            );
        }
        is_ours
    }

    /// Publishes the figures of all pools, as they are now, to the recorder in force: the
    /// thread's own (see `metrics::with_local_recorder`), or else the global one. Where there is
    /// none, nothing happens, and a recorder that is installed later misses nothing.
    ///
    /// Two calls at the same time follow one another.
    pub fn publish(&self) {
        let _publishing = self.shared.publishing.lock();
        facade::publish(&self.shared.read());
    }
}

impl Shared {
    fn read(&self) -> Vec<(Arc<str>, Published)> {
        let live: Vec<_> = self
            .pools
            .lock()
            .iter()
            .map(|(name, pools)| (Arc::clone(name), pools.live().collect::<Vec<_>>()))
            .collect();
        // Reading a pool calls the user's mapping, and the wrapped pool for its limit: not under
        // the lock.
        let readings: Vec<_> = live
            .iter()
            .map(|(name, pools)| {
                let read = |pool: &Arc<_>| (PoolKey::of(pool), Reading::of(pool, &*self.label_of));
                (name, pools.iter().map(read).collect::<Vec<_>>())
            })
            .collect();
        let mut pools = self.pools.lock();
        readings
            .into_iter()
            .filter_map(|(name, readings)| {
                let published = pools.get_mut(name)?.publish(&readings);
                Some((Arc::clone(name), published))
            })
            .collect()
    }

    fn retire(&self, name: &Arc<str>, key: PoolKey, pool: &CountingPool) {
        let last = Reading::of(pool, &*self.label_of);
        let mut pools = self.pools.lock();
        self.of_name(&mut pools, name).retire(key, &last);
    }

    fn of_name<'a>(
        &self,
        pools: &'a mut BTreeMap<Arc<str>, PoolsOfName>,
        name: &Arc<str>,
    ) -> &'a mut PoolsOfName {
        pools
            .entry(Arc::clone(name))
            .or_insert_with(|| PoolsOfName::new(Labels::new(&[], self.label_bound)))
    }
}

impl Debug for Registry {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("label_bound", &self.shared.label_bound)
            .field("expected", &self.shared.expected)
            .finish_non_exhaustive()
    }
}

/// Options of a [`Registry`].
pub struct RegistryBuilder {
    label_of: Box<LabelOf>,
    label_bound: usize,
    expected: BTreeMap<Arc<str>, Vec<Arc<str>>>,
}

impl RegistryBuilder {
    /// Sets how a consumer's name becomes the label `consumer`; unless set it is
    /// [`operator_name`].
    ///
    /// A pool knows consumers that have gone by their full names for the first 1,000 names, and
    /// beyond these by operator: `label` is then given the operator's name. A mapping that gives
    /// a name and its operator different labels keeps its counters apart only as long as there
    /// are fewer names, and beyond 1,000 operators, where a pool keeps no row for them, they count
    /// under `other`. It is called while figures are published and while a pool is dropped, so
    /// it should be quick, and must not panic.
    #[must_use]
    pub fn with_label(mut self, label: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.label_of = Box::new(label);
        self
    }

    /// Sets how many distinct values the label `consumer` may have for each pool name, 200
    /// unless set. Further ones share the label `other`, and are counted.
    #[must_use]
    pub fn with_label_bound(mut self, labels: usize) -> Self {
        self.label_bound = labels;
        self
    }

    /// Names labels that consumers of a pool will have. Their series exist as zeroes from the
    /// first publish on, before there is such a consumer or such a pool: Prometheus' `increase`
    /// and `rate` miss what a series holds when it is first seen.
    ///
    /// They count against the bound, and are given beyond it.
    #[must_use]
    pub fn with_expected<L: AsRef<str>>(
        mut self,
        pool: &str,
        labels: impl IntoIterator<Item = L>,
    ) -> Self {
        let labels = labels.into_iter().map(|label| clean(label.as_ref()));
        self.expected.entry(clean(pool)).or_default().extend(labels);
        self
    }

    /// A registry of one's own.
    pub fn build(self) -> Registry {
        let pools = self.expected.iter().map(|(pool, labels)| {
            let labels = Labels::new(labels, self.label_bound);
            (Arc::clone(pool), PoolsOfName::new(labels))
        });
        Registry {
            shared: Arc::new(Shared {
                pools: Mutex::new(pools.collect()),
                label_of: self.label_of,
                label_bound: self.label_bound,
                expected: self.expected,
                publishing: Mutex::default(),
            }),
        }
    }

    /// Makes it the registry of the process, see [`Registry::global`].
    ///
    /// # Errors
    /// Where there is one already: another was installed, or somebody has asked for it.
    pub fn install(self) -> Result<&'static Registry, RegistryInstalled> {
        let mut options = Some(self);
        let registry = GLOBAL.get_or_init(|| options.take().map(Self::build).unwrap_or_default());
        match options {
            None => Ok(registry),
            Some(_) => Err(RegistryInstalled(())),
        }
    }
}

impl Debug for RegistryBuilder {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryBuilder")
            .field("label_bound", &self.label_bound)
            .field("expected", &self.expected)
            .finish_non_exhaustive()
    }
}

/// The global registry was installed or used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistryInstalled(());

impl Display for RegistryInstalled {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the global registry of memory pools is there already: install one before it is \
             first asked for",
        )
    }
}

impl std::error::Error for RegistryInstalled {}
