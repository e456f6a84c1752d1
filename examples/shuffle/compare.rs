//! Do both sides' files hold the same rows in the same partitions, in the same order?

use std::fmt::{Display, Formatter};
use std::thread;

use datafusion_common::Result;
use datafusion_counting_pool::Shuffle;

use crate::failure::Failure;
use crate::first_difference::{Outcome, first_difference};
use crate::measure::Task;

/// What reading both sides' files back has shown.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Rows that were read from either side and are the same.
    pub(crate) equal_rows: u64,
    pub(crate) difference: Option<Difference>,
}

/// The first place in which the two sides differ.
#[derive(Debug, PartialEq)]
pub(crate) struct Difference {
    task: usize,
    partition: usize,
    row: u64,
}

impl Display for Difference {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self {
            task,
            partition,
            row,
        } = self;
        write!(
            f,
            "the outputs differ: task {task}, partition {partition}, row {row}"
        )
    }
}

/// Reads each task's two files at the same time, a batch of each in memory.
///
/// # Errors
/// A file that cannot be read back.
pub(crate) fn compare(exact: &[Task], stepped: &[Task]) -> Result<Comparison, Failure> {
    thread::scope(|scope| {
        let tasks: Vec<_> = exact
            .iter()
            .zip(stepped)
            .enumerate()
            .map(|(task, (exact, stepped))| {
                scope.spawn(move || compare_task(task, &exact.shuffle, &stepped.shuffle))
            })
            .collect();
        let mut all = Comparison::default();
        for task in tasks {
            let task = task
                .join()
                .map_err(|_| Failure::run("reading back panicked"))??;
            all.equal_rows += task.equal_rows;
            all.difference = all.difference.or(task.difference);
        }
        Ok(all)
    })
}

fn compare_task(task: usize, exact: &Shuffle, stepped: &Shuffle) -> Result<Comparison> {
    let mut equal_rows = 0;
    for partition in 0..exact.partitions() {
        match first_difference(exact.partition(partition)?, stepped.partition(partition)?)? {
            Outcome::Equal(rows) => equal_rows += rows,
            Outcome::DifferentAt(row) => {
                let difference = Some(Difference {
                    task,
                    partition,
                    row,
                });
                return Ok(Comparison {
                    equal_rows: equal_rows + row,
                    difference,
                });
            }
        }
    }
    Ok(Comparison {
        equal_rows,
        difference: None,
    })
}
