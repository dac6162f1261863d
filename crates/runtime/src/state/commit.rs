//! The one commit point: whatever changes retained values, changes them here, all at once.

use super::{Inner, Retained};
use crate::explain::Outcome;
use crate::options::AppendReuse;
use crate::persistent_value::PersistentValue;
use refeed_values::RuntimeValue;

/// What becomes of one retained value.
pub(super) enum Change {
    /// It stays.
    Keep,
    /// Another value takes its place, as if it had stood there from the start.
    Replace(Retained),
    /// A call's output takes its place.
    Publish(RuntimeValue),
}

/// A complete next state, checked: what becomes of each binding's value, and what is to be told about it.
///
/// A list on the heap, since changes are large: a state keeps it from call to call, and only its handle moves.
#[derive(Default)]
pub(super) struct Next(pub(super) Vec<(Change, Outcome)>);

impl Next {
    /// All values replaced by others that no call has computed.
    pub(super) fn replacing(values: impl IntoIterator<Item = Retained>) -> Next {
        let changes = values
            .into_iter()
            .map(|value| (Change::Replace(value), Outcome::NotRun));
        Next(changes.collect())
    }
}

impl Inner {
    /// Swaps the handles. Nothing can fail here.
    pub(super) fn commit(&mut self, mut next: Next) {
        for (index, (change, outcome)) in next.0.drain(..).enumerate() {
            self.explanation[index] = outcome;
            match change {
                // An append that is not to be published gives its rows back.
                Change::Keep => self.appends.forget(index),
                Change::Replace(next) => {
                    self.appends.replaced(index);
                    self.retained[index] = next;
                }
                Change::Publish(output) => {
                    let value = PersistentValue::published(&mut self.appends, index, output);
                    let next = Retained {
                        value,
                        published: true,
                    };
                    let last = std::mem::replace(&mut self.retained[index], next);
                    // The next call computes into it, when nobody else holds it.
                    let last = last.value.into_tensor();
                    let turns = self.core.options.append_reuse == AppendReuse::Always;
                    let last = match (last, self.retained[index].value.tensor()) {
                        (Some(last), Some(next)) => self.appends.turn(index, last, next, turns),
                        (last, _) => last,
                    };
                    if let Some(tensor) = last {
                        self.workspace.recycle(tensor);
                    }
                }
            }
        }
        self.spare = next;
    }
}
