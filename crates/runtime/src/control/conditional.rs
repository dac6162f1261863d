//! `If`.

use super::Body;
use crate::kernel::{Invocation, Kernel, Kinds, OpError, one_flag};

/// Runs the branch that its condition names. Source: the ONNX operator `If`.
pub(crate) struct If {
    pub(crate) then_branch: Body,
    pub(crate) else_branch: Body,
}

impl Kernel for If {
    fn reads(&self) -> Kinds {
        Kinds::Any
    }

    fn may_leave_empty(&self) -> bool {
        true
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let branch = match one_flag(call.require(0)?)? {
            true => &self.then_branch,
            false => &self.else_branch,
        };
        branch.with_frame(|frame| {
            frame.run(call)?;
            for index in 0..call.output_count() {
                if let Some(value) = frame.output(index) {
                    call.set(index, value.clone());
                }
            }
            frame.clear(call);
            Ok(())
        })
    }
}
