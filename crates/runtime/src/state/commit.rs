//! The one commit point: whatever changes retained values, changes them here, all at once.

use super::{Inner, Retained};
use crate::explain::Outcome;
use crate::persistent_value::PersistentValue;
use refeed_values::RuntimeValue;
use smallvec::SmallVec;

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
#[derive(Default)]
pub(super) struct Next(pub(super) SmallVec<[(Change, Outcome); 8]>);

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
    pub(super) fn commit(&mut self, next: Next) {
        for (index, (change, outcome)) in next.0.into_iter().enumerate() {
            self.explanation[index] = outcome;
            let next = match change {
                // An append that is not to be published gives its rows back.
                Change::Keep => {
                    self.appends.forget(index);
                    continue;
                }
                Change::Replace(next) => next,
                Change::Publish(output) => {
                    let value = PersistentValue::published(&mut self.appends, index, &output);
                    Retained {
                        value,
                        published: true,
                    }
                }
            };
            self.retained[index] = next;
        }
    }
}
