//! What the tests share.

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion_common::Result;
use datafusion_counting_pool::Shuffle;
use datafusion_execution::TaskContext;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::memory_pool::MemoryPool;
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::col;
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::test::TestMemoryExec;
use std::sync::Arc;

/// A plan with these batches in its partitions.
pub(crate) fn in_memory(
    partitions: &[Vec<RecordBatch>],
    schema: SchemaRef,
) -> Arc<dyn ExecutionPlan> {
    TestMemoryExec::try_new_exec(partitions, schema, None).unwrap()
}

pub(crate) fn context(config: SessionConfig, pool: Arc<dyn MemoryPool>) -> Arc<TaskContext> {
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(pool)
        .build_arc()
        .unwrap();
    Arc::new(
        TaskContext::default()
            .with_session_config(config)
            .with_runtime(runtime),
    )
}

pub(crate) fn column(name: &str, schema: &Schema) -> Arc<dyn PhysicalExpr> {
    col(name, schema).unwrap()
}

/// The rows of each partition, as one batch.
pub(crate) fn read(shuffle: &Shuffle) -> Result<Vec<RecordBatch>> {
    (0..shuffle.partitions())
        .map(|partition| {
            let batches = shuffle.partition(partition)?.collect::<Result<Vec<_>>>()?;
            Ok(concat_batches(&shuffle.schema(), &batches)?)
        })
        .collect()
}
