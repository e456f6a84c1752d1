//! The tables of TPC-H, generated as they are read.

use std::fmt::{Display, Formatter};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use clap::ValueEnum;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow,
    RecordBatchIterator, RegionArrow, SupplierArrow,
};

use crate::cli::Table;

#[derive(Clone, Copy, Debug)]
pub(super) struct Tpch {
    pub(super) table: Table,
    pub(super) scale: f64,
    pub(super) batch_rows: usize,
}

impl Tpch {
    /// The columns that the table is usually shuffled by: its primary key, but for lineitem the
    /// part of it that joins with orders.
    pub(super) fn key(self) -> &'static [&'static str] {
        match self.table {
            Table::Customer => &["c_custkey"],
            Table::Lineitem => &["l_orderkey"],
            Table::Nation => &["n_nationkey"],
            Table::Orders => &["o_orderkey"],
            Table::Part => &["p_partkey"],
            Table::Partsupp => &["ps_partkey", "ps_suppkey"],
            Table::Region => &["r_regionkey"],
            Table::Supplier => &["s_suppkey"],
        }
    }

    pub(super) fn schema(self) -> SchemaRef {
        Arc::clone(self.batches().schema())
    }

    pub(super) fn batches(self) -> Box<dyn RecordBatchIterator> {
        macro_rules! generate {
            ($generator:ident, $arrow:ident) => {
                Box::new(
                    $arrow::new($generator::new(self.scale, 1, 1)).with_batch_size(self.batch_rows),
                )
            };
        }
        match self.table {
            Table::Customer => generate!(CustomerGenerator, CustomerArrow),
            Table::Lineitem => generate!(LineItemGenerator, LineItemArrow),
            Table::Nation => generate!(NationGenerator, NationArrow),
            Table::Orders => generate!(OrderGenerator, OrderArrow),
            Table::Part => generate!(PartGenerator, PartArrow),
            Table::Partsupp => generate!(PartSuppGenerator, PartSuppArrow),
            Table::Region => generate!(RegionGenerator, RegionArrow),
            Table::Supplier => generate!(SupplierGenerator, SupplierArrow),
        }
    }
}

impl Display for Tpch {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let value = self.table.to_possible_value();
        let name = value.as_ref().map_or("table", |value| value.get_name());
        write!(f, "TPC-H {name} at scale {}", self.scale)
    }
}
