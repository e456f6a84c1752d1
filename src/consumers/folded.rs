//! What is kept of consumers that have gone.

use crate::figures::Figures;
use crate::operator_name::operator_name;
use std::collections::HashMap;
use std::sync::Arc;

/// Names and, beyond these, operators that have rows of their own. Names often hold the
/// expressions of a query, so that there is no end to them.
pub(crate) const MOST_ROWS: usize = 1_000;

/// Rows are shared with the readings that are about, so that a reading is cheap: who changes a
/// row makes a copy of that one, if it has to.
pub(crate) type Rows = HashMap<Arc<str>, Arc<Figures>>;

/// Figures by name for the first 1,000 names, then by operator for the first 1,000 operators,
/// then together. So nothing is lost, and the memory is bounded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folded {
    pub(crate) names: Rows,
    pub(crate) operators: Rows,
    pub(crate) others: Arc<Figures>,
    /// Consumers that have no row by name.
    pub(crate) overflowed: u64,
}

impl Folded {
    pub(crate) fn add(&mut self, name: &Arc<str>, figures: &Figures) {
        if let Some(row) = row(&mut self.names, name) {
            return row.add(figures);
        }
        self.overflowed += figures.registrations;
        let operator = operator_name(name);
        match row(&mut self.operators, &operator.into()) {
            Some(row) => row.add(figures),
            None => Arc::make_mut(&mut self.others).add(figures),
        }
    }
}

fn row<'a>(rows: &'a mut Rows, name: &Arc<str>) -> Option<&'a mut Figures> {
    if rows.len() >= MOST_ROWS && !rows.contains_key(name) {
        return None;
    }
    Some(Arc::make_mut(rows.entry(Arc::clone(name)).or_default()))
}
