//! Who is told when a pool goes.

use super::CountingPool;
use once_cell::sync::OnceCell;

pub(crate) type Tell = Box<dyn Fn(&CountingPool) + Send + Sync>;

#[derive(Default)]
pub(super) struct OnDrop(OnceCell<Tell>);

impl CountingPool {
    /// Has `tell` called once, just before the pool goes: its figures are final then. `false`
    /// where somebody is told already.
    pub(crate) fn tell_when_dropped(&self, tell: Tell) -> bool {
        self.on_drop.0.set(tell).is_ok()
    }

    pub(super) fn tell_that_it_goes(&self) {
        if let Some(tell) = self.on_drop.0.get() {
            tell(self);
        }
    }
}
