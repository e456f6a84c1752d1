//! What the model makes of rules that concern it alone. That it behaves as Spark does is shown
//! by the suite of the `spark-memory` example, which runs over both.

use datafusion_counting_pool::spark::{ExecutionMemoryModel, TaskMemory};

#[test]
#[should_panic(expected = "task 1 releases 61 bytes out of the 60 it was granted")]
fn a_strict_model_panics_where_more_is_released_than_was_granted() {
    let spark = ExecutionMemoryModel::strict(100);
    let task = spark.task(1);
    assert_eq!(task.acquire(60).unwrap(), 60);
    task.release(61).unwrap();
}

#[test]
fn a_pool_that_moved_below_what_is_granted_grants_nothing_more() {
    let spark = ExecutionMemoryModel::strict(100);
    let task = spark.task(1);
    assert_eq!(task.acquire(60).unwrap(), 60);
    spark.set_pool_bytes(50);
    assert_eq!(task.acquire(10).unwrap(), 0);
    spark.set_pool_bytes(65);
    assert_eq!(task.acquire(10).unwrap(), 5);
    assert_eq!(spark.active_tasks(), [(1, 65)]);
}
