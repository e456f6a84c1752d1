//! The rows that are shuffled: where they come from, and how they reach the tasks.

mod file;
mod synthetic;
mod tpch;

use std::fmt::{Display, Formatter};
use std::sync::mpsc::sync_channel;
use std::thread::{Scope, ScopedJoinHandle};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::cli::Cli;
use crate::failure::Failure;
use file::File;
use synthetic::Synthetic;
use tpch::Tpch;

/// Batches that may wait for a task. A reader that is a little ahead keeps the tasks busy, and the
/// input never has to fit in memory.
const WAITING_BATCHES: usize = 2;

/// The batches of one task, in order.
pub(crate) type Batches = Box<dyn Iterator<Item = RecordBatch> + Send>;

/// The thread that deals out a table's or a file's batches, if there is one.
pub(crate) type Dealer<'scope> = Option<ScopedJoinHandle<'scope, Result<(), Failure>>>;

/// What is shuffled. Each use of it gives the same rows, in the same batches, to the same tasks.
#[derive(Debug)]
pub(crate) struct Workload {
    source: Source,
    schema: SchemaRef,
    hash_columns: Vec<String>,
}

#[derive(Debug)]
enum Source {
    Synthetic(Synthetic),
    Tpch(Tpch),
    File(File),
}

impl Workload {
    /// The workload that the command line asks for.
    ///
    /// # Errors
    /// A file that cannot be read, and a column to hash that is not there.
    pub(crate) fn new(cli: &Cli) -> Result<Self, Failure> {
        let batch_rows = cli.batch_rows.unwrap_or(8192) as usize;
        let (source, schema, default_columns) = if let Some(path) = &cli.input {
            let file = File::new(path.clone(), cli.batch_rows.map(|rows| rows as usize))?;
            let schema = file.schema()?;
            (Source::File(file), schema, &[] as &[&str])
        } else if let Some(table) = cli.tpch {
            let tpch = Tpch {
                table,
                scale: cli.scale.unwrap_or(1.0),
                batch_rows,
            };
            let schema = tpch.schema();
            (Source::Tpch(tpch), schema, tpch.key())
        } else {
            let synthetic = Synthetic {
                key: cli.key.unwrap_or_default(),
                batches: cli.batches.unwrap_or(256),
                batch_rows,
            };
            (
                Source::Synthetic(synthetic),
                synthetic.schema(),
                &[synthetic::COLUMN] as &[&str],
            )
        };
        let hash_columns = match &cli.hash_columns {
            Some(columns) => columns.clone(),
            None => default_columns
                .iter()
                .map(|&column| column.to_owned())
                .collect(),
        };
        let workload = Self {
            source,
            schema,
            hash_columns,
        };
        workload.check_columns()?;
        Ok(workload)
    }

    fn check_columns(&self) -> Result<(), Failure> {
        let names: Vec<&str> = self
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        let names_there = names.join(", ");
        if self.hash_columns.is_empty() {
            return Err(Failure::usage(format!(
                "--input needs --hash-columns; the columns are {names_there}"
            )));
        }
        match self
            .hash_columns
            .iter()
            .find(|column| !names.contains(&column.as_str()))
        {
            Some(column) => Err(Failure::usage(format!(
                "there is no column \"{column}\" to hash; the columns are {names_there}"
            ))),
            None => Ok(()),
        }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Names of the columns whose hash decides on the partition.
    pub(crate) fn hash_columns(&self) -> &[String] {
        &self.hash_columns
    }

    /// The batches of each task. A table's or a file's are dealt out in turn, by a thread of
    /// `scope` that ends when all are or when a task takes no more; its error is the input's.
    pub(crate) fn deal<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        tasks: usize,
    ) -> (Vec<Batches>, Dealer<'scope>) {
        match &self.source {
            Source::Synthetic(synthetic) => {
                let batches = (0..tasks).map(|task| synthetic.batches_of(task));
                (batches.collect(), None)
            }
            Source::Tpch(tpch) => deal_out(scope, tasks, || Ok(tpch.batches().map(Ok))),
            Source::File(file) => deal_out(scope, tasks, || file.batches()),
        }
    }
}

fn deal_out<'scope, I>(
    scope: &'scope Scope<'scope, '_>,
    tasks: usize,
    open: impl FnOnce() -> Result<I, Failure> + Send + 'scope,
) -> (Vec<Batches>, Dealer<'scope>)
where
    I: Iterator<Item = Result<RecordBatch, Failure>>,
{
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..tasks).map(|_| sync_channel(WAITING_BATCHES)).unzip();
    let dealer = scope.spawn(move || {
        for (batch, task) in open()?.zip(senders.iter().cycle()) {
            // A task that takes no more has failed, and has an error of its own to report.
            if task.send(batch?).is_err() {
                break;
            }
        }
        Ok(())
    });
    let batches = receivers
        .into_iter()
        .map(|receiver| Box::new(receiver.into_iter()) as Batches);
    (batches.collect(), Some(dealer))
}

impl Display for Workload {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match &self.source {
            Source::Synthetic(synthetic) => synthetic.fmt(f),
            Source::Tpch(tpch) => tpch.fmt(f),
            Source::File(file) => file.fmt(f),
        }
    }
}
