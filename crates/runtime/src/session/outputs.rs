//! What a call hands to its caller.

use super::Core;
use refeed_values::{RuntimeValue, Tensor};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// What the results of all calls of one plan share.
#[derive(Debug)]
pub(crate) struct Results {
    pub(super) names: Box<[Arc<str>]>,
    /// Empty lists of results that were let go of: a warm call takes one instead of asking for memory.
    lists: Mutex<Vec<Vec<RuntimeValue>>>,
}

impl Results {
    /// Lists that are kept: a caller holds few results at a time.
    const KEPT: usize = 4;

    pub(super) fn new(names: Box<[Arc<str>]>) -> Results {
        Results {
            names,
            lists: Mutex::new(Vec::with_capacity(Results::KEPT)),
        }
    }

    /// `None` while another thread has them: nobody waits for what can be had otherwise.
    fn lists(&self) -> Option<MutexGuard<'_, Vec<Vec<RuntimeValue>>>> {
        match self.lists.try_lock() {
            Ok(lists) => Some(lists),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// An empty list with room for all results.
    pub(super) fn list(&self) -> Vec<RuntimeValue> {
        let held = self.lists().and_then(|mut lists| lists.pop());
        held.unwrap_or_else(|| Vec::with_capacity(self.names.len()))
    }

    /// Takes a list back when its values are not needed any more.
    fn give(&self, mut list: Vec<RuntimeValue>) {
        list.clear();
        if list.capacity() == 0 {
            return;
        }
        if let Some(mut lists) = self.lists().filter(|lists| lists.len() < Results::KEPT) {
            lists.push(list);
        }
    }
}

/// The named results of a call, in the graph's output order.
#[derive(Debug, Clone)]
pub struct Outputs {
    shared: Arc<Results>,
    values: Vec<RuntimeValue>,
}

impl Drop for Outputs {
    fn drop(&mut self) {
        self.shared.give(std::mem::take(&mut self.values));
    }
}

impl Outputs {
    pub(crate) fn new(core: &Core, values: Vec<RuntimeValue>) -> Outputs {
        Outputs {
            shared: core.results.clone(),
            values,
        }
    }

    /// The output of this name.
    pub fn get(&self, name: &str) -> Option<&RuntimeValue> {
        let mut names = self.shared.names.iter();
        names
            .position(|held| &**held == name)
            .map(|at| &self.values[at])
    }

    /// The output of this name, when it is a tensor.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.get(name)?.tensor()
    }

    /// Names and values, in the graph's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RuntimeValue)> {
        let names = self.shared.names.iter();
        names.map(|name| &**name).zip(&self.values)
    }

    /// The values, in the graph's order.
    pub fn values(&self) -> &[RuntimeValue] {
        &self.values
    }

    /// The values, in the graph's order.
    pub fn into_values(mut self) -> Vec<RuntimeValue> {
        std::mem::take(&mut self.values)
    }
}

impl std::ops::Index<&str> for Outputs {
    type Output = Tensor;

    /// # Panics
    /// When there is no output of this name, or it is no tensor.
    #[allow(clippy::panic)]
    fn index(&self, name: &str) -> &Tensor {
        match self.tensor(name) {
            Some(tensor) => tensor,
            None => panic!("no tensor output `{name}`"),
        }
    }
}
