//! Any sequence of pools, consumers and calls, against a slow and obvious model.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion_counting_pool::{CountingPool, Registry};
use datafusion_execution::memory_pool::MemoryReservation;
use proptest::prelude::*;

use crate::exposition::{Series, recorder, scrape};
use crate::{consumer, limited};

const LIMIT: usize = 1_000;

#[derive(Clone, Debug)]
enum Step {
    AddPool { name: usize },
    DropPool { which: usize },
    Register { pool: usize, name: usize },
    Unregister { which: usize },
    Grow { which: usize, bytes: usize },
    Shrink { which: usize },
    Publish,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = || 0..8_usize;
    let step = prop_oneof![
        1 => (0..3_usize).prop_map(|name| Step::AddPool { name }),
        1 => index().prop_map(|which| Step::DropPool { which }),
        3 => (index(), 0..4_usize).prop_map(|(pool, name)| Step::Register { pool, name }),
        2 => index().prop_map(|which| Step::Unregister { which }),
        8 => (index(), 0..600_usize).prop_map(|(which, bytes)| Step::Grow { which, bytes }),
        4 => index().prop_map(|which| Step::Shrink { which }),
        2 => Just(Step::Publish),
    ];
    prop::collection::vec(step, 0..120)
}

struct Pool {
    name: usize,
    pool: Arc<CountingPool>,
    consumers: Vec<Consumer>,
}

struct Consumer {
    name: usize,
    reservation: MemoryReservation,
    acquires: u64,
}

/// What was ever done, by pool name and consumer name.
#[derive(Default)]
struct Model(BTreeMap<(usize, usize), BTreeMap<&'static str, u64>>);

impl Model {
    fn count(&mut self, pool: &Pool, consumer: usize, figure: &'static str, by: usize) {
        let figures = self.0.entry((pool.name, consumer)).or_default();
        *figures.entry(figure).or_default() += by as u64;
    }
}

fn run(steps: Vec<Step>) {
    let (registry, recorder) = (Registry::new(), recorder());
    let mut model = Model::default();
    let mut pools: Vec<Pool> = vec![];
    for step in steps.into_iter().chain([Step::Publish]) {
        match step {
            Step::AddPool { name } => pools.push(Pool {
                name,
                pool: limited(&registry, &format!("pool {name}"), LIMIT),
                consumers: vec![],
            }),
            Step::DropPool { which } if which < pools.len() => {
                let mut gone = pools.remove(which);
                while !gone.consumers.is_empty() {
                    unregister(&mut model, &mut gone, 0);
                }
            }
            Step::Register { pool, name } if pool < pools.len() => {
                let pool = &mut pools[pool];
                let reservation = consumer(&pool.pool, &format!("consumer {name}[{pool:p}]"));
                pool.consumers.push(Consumer {
                    name,
                    reservation,
                    acquires: 0,
                });
                model.count(pool, name, "registrations_total", 1);
            }
            Step::Unregister { which } => {
                if let Some((pool, which)) = find(&mut pools, which) {
                    unregister(&mut model, pool, which);
                }
            }
            Step::Grow { which, bytes } => {
                if let Some((pool, which)) = find(&mut pools, which) {
                    grow(&mut model, pool, which, bytes);
                }
            }
            Step::Shrink { which } => {
                if let Some((pool, which)) = find(&mut pools, which) {
                    release(&mut model, pool, which);
                }
            }
            Step::Publish => check(&model, &pools, &scrape(&registry, &recorder)),
            Step::DropPool { .. } | Step::Register { .. } => {}
        }
    }
}

/// The consumer with this number, counted over all pools.
fn find(pools: &mut [Pool], mut which: usize) -> Option<(&mut Pool, usize)> {
    for pool in pools {
        match which.checked_sub(pool.consumers.len()) {
            None => return Some((pool, which)),
            Some(rest) => which = rest,
        }
    }
    None
}

fn grow(model: &mut Model, pool: &mut Pool, which: usize, bytes: usize) {
    if bytes == 0 {
        return;
    }
    let held: usize = pool.consumers.iter().map(|c| c.reservation.size()).sum();
    let consumer = &mut pool.consumers[which];
    let granted = consumer.reservation.try_grow(bytes).is_ok();
    assert_eq!(granted, held + bytes <= LIMIT);
    consumer.acquires += 1;
    let name = consumer.name;
    model.count(pool, name, "acquires_total", 1);
    if granted {
        model.count(pool, name, "acquired_bytes_total", bytes);
    } else {
        model.count(pool, name, "denied_total", 1);
        model.count(pool, name, "denied_bytes_total", bytes);
    }
}

fn release(model: &mut Model, pool: &mut Pool, which: usize) {
    let consumer = &mut pool.consumers[which];
    let (name, freed) = (consumer.name, consumer.reservation.free());
    if freed > 0 {
        model.count(pool, name, "releases_total", 1);
        model.count(pool, name, "released_bytes_total", freed);
    }
}

fn unregister(model: &mut Model, pool: &mut Pool, which: usize) {
    release(model, pool, which);
    let gone = pool.consumers.remove(which);
    model.count(pool, gone.name, "finished_consumers_total", 1);
    model.count(
        pool,
        gone.name,
        "finished_acquires_total",
        gone.acquires as usize,
    );
}

fn check(model: &Model, pools: &[Pool], seen: &Series) {
    for (&(pool, consumer), figures) in &model.0 {
        let labels = format!(r#"{{pool="pool {pool}",consumer="consumer {consumer}"}}"#);
        for (figure, &value) in figures {
            assert_eq!(
                seen[&format!("{figure}{labels}")],
                value as f64,
                "{figure}{labels}"
            );
        }
        let live = pools
            .iter()
            .filter(|live| live.name == pool)
            .flat_map(|pool| &pool.consumers)
            .filter(|live| live.name == consumer);
        let (mut consumers, mut reserved) = (0.0, 0.0);
        for live in live {
            consumers += 1.0;
            reserved += live.reservation.size() as f64;
        }
        assert_eq!(seen[&format!("consumers{labels}")], consumers, "{labels}");
        assert_eq!(
            seen[&format!("reserved_bytes{labels}")],
            reserved,
            "{labels}"
        );
    }
    for name in 0..3 {
        let live = pools.iter().filter(|pool| pool.name == name).count();
        let limit = seen.get(&format!(r#"limit_bytes{{pool="pool {name}"}}"#));
        assert_eq!(limit.copied().unwrap_or(0.0), (live * LIMIT) as f64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn figures_are_those_of_a_model(steps in steps()) {
        run(steps);
    }
}
