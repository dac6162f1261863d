//! Messages that are handed out before they are made.
//!
//! A step of a model with a cache in pages gives a cache with one page more, and mostly nobody looks at it but the next step.
//! Its message would have an entry for each page; it is made when somebody asks for a part of it, of the value as it was
//! handed out, whose payloads it shares. Until then, and for as long as nothing of it is changed, it goes back as that value.

use super::convert::prost_to_frozen;
use crate::run;
use pyo3::prelude::*;
use refeed_graph::values;
use refeed_proto::message::FrozenMessage;
use refeed_values::RuntimeValue;
use std::sync::{Arc, OnceLock};

/// A cache in pages that keeps all rules and stands alone.
pub(crate) struct Origin {
    value: RuntimeValue,
    made: OnceLock<Arc<FrozenMessage>>,
}

impl Origin {
    pub(crate) fn new(value: RuntimeValue) -> Origin {
        Origin {
            value,
            made: OnceLock::new(),
        }
    }

    pub(super) fn value(&self) -> &RuntimeValue {
        &self.value
    }

    /// Whether this is the message that was made here.
    pub(super) fn made(&self, message: &Arc<FrozenMessage>) -> bool {
        self.made
            .get()
            .is_some_and(|made| Arc::ptr_eq(made, message))
    }

    /// The message. Other threads run meanwhile.
    ///
    /// # Errors
    /// When memory for the copy of a strided payload cannot be had.
    pub(super) fn make(&self, py: Python<'_>) -> PyResult<Arc<FrozenMessage>> {
        if let Some(made) = self.made.get() {
            return Ok(made.clone());
        }
        let proto = run::detached(py, || values::to_paged_cache(&self.value, ""))?;
        let made = prost_to_frozen(py, &proto)?;
        Ok(self.made.get_or_init(|| made).clone())
    }
}
