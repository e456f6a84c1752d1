//! The pools over Spark's task memory, against scripted answers and against the model of Spark.

mod calls;
mod cases;
mod limits;
mod model;
mod overcommit;
mod properties;
mod rules;
mod scripted;
mod storm;
mod stress;
mod subject;
mod watchdog;

use std::sync::Arc;

use datafusion_common::DataFusionError;
use datafusion_counting_pool::spark::{FairUnifiedPool, GreedyUnifiedPool, TaskMemory};
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

type Fair = Arc<FairUnifiedPool>;
type Greedy = Arc<GreedyUnifiedPool>;

fn fair(memory: &Arc<impl TaskMemory + 'static>, pool_size: usize) -> Fair {
    let memory: Arc<dyn TaskMemory> = Arc::clone(memory) as _;
    Arc::new(FairUnifiedPool::new(memory, pool_size))
}

fn greedy(memory: &Arc<impl TaskMemory + 'static>) -> Greedy {
    let memory: Arc<dyn TaskMemory> = Arc::clone(memory) as _;
    Arc::new(GreedyUnifiedPool::new(memory))
}

fn register(pool: &Arc<impl MemoryPool>, name: &str) -> MemoryReservation {
    let pool: Arc<dyn MemoryPool> = Arc::clone(pool) as _;
    MemoryConsumer::new(name)
        .with_can_spill(true)
        .register(&pool)
}

/// The words of a refusal, which has to be one.
#[track_caller]
fn refusal(answer: Result<(), DataFusionError>) -> String {
    match answer {
        Err(DataFusionError::ResourcesExhausted(message)) => message,
        other => panic!("expected ResourcesExhausted, not {other:?}"),
    }
}

macro_rules! tests_over_the_model {
    ($module:ident: $($case:ident)*) => {
        mod $module {
            $(
                #[test]
                fn $case() {
                    crate::subject::Stage::run(crate::$module::model, crate::$module::$case);
                }
            )*
        }
    };
}

mod over_the_model {
    crate::cases::for_each_case!(tests_over_the_model);
    crate::rules::for_each_rule!(tests_over_the_model);
    crate::storm::for_each_storm!(tests_over_the_model);
}
