//! The same model, compiled with the kernels of different contexts.

use crate::context::RuntimeContext;
use crate::error::SessionError;
use crate::registry::Kernels;
use crate::session::Core;
use std::sync::{Arc, Mutex, PoisonError};

/// Most plans that are kept beside the first; the one that was made first goes first.
const KEPT: usize = 8;

/// Plans of a model that were compiled for contexts with kernels of their own.
#[derive(Default)]
pub(crate) struct Variants(Mutex<Vec<Arc<Core>>>);

impl Core {
    /// Whether the plan is the one for calls with this context. Takes no lock.
    fn fits(&self, context: &RuntimeContext) -> bool {
        self.kernels.are_of(context.kernels())
            && (self.plan.missing.is_empty() || self.kernels.are_present())
    }

    /// The core for calls with this context: this one, or one that is compiled now and kept.
    ///
    /// # Errors
    /// When a node has no kernel, or the model cannot be compiled with these kernels.
    pub(crate) fn fitting(
        self: &Arc<Core>,
        context: &RuntimeContext,
    ) -> Result<Arc<Core>, SessionError> {
        let core = match self.fits(context) {
            true => self.clone(),
            false => self.variant(context)?,
        };
        match core.plan.missing.is_empty() {
            true => Ok(core),
            false => Err(SessionError::Unregistered(core.plan.missing.clone())),
        }
    }

    #[cold]
    fn variant(self: &Arc<Core>, context: &RuntimeContext) -> Result<Arc<Core>, SessionError> {
        // Two first calls at once compile twice, and one of the two plans is kept.
        let held = || {
            self.variants
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(core) = held().iter().find(|core| core.fits(context)) {
            return Ok(core.clone());
        }
        let kernels = Kernels::of(context.kernels());
        let (model, options) = (self.model.clone(), self.options.clone());
        let core = Core::compiled(model, options, kernels, self.allocator.clone())?;
        let core = Arc::new(core);
        let mut held = held();
        let mut gone: Vec<_> = held
            .extract_if(.., |core| core.kernels.are_orphaned())
            .collect();
        if held.len() >= KEPT {
            gone.push(held.remove(0));
        }
        held.push(core.clone());
        drop(held);
        // Kernels may belong to owners that come back here when they go.
        drop(gone);
        Ok(core)
    }
}
