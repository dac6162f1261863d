//! `SequenceMap`.

use super::Body;
use super::body::at_iteration;
use crate::kernel::{Invocation, Kernel, Kinds, OpError};
use crate::ops::own;
use refeed_values::{RuntimeSequence, RuntimeValue};

/// Runs its body for each element of a sequence, and of others of the same length; values of other kinds go to each.
/// Source: the ONNX operator `SequenceMap`.
pub(crate) struct SequenceMap {
    pub(crate) body: Body,
    pub(crate) inputs: usize,
}

impl Kernel for SequenceMap {
    fn reads(&self) -> Kinds {
        Kinds::Any
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let first = match call.require_value(0)? {
            RuntimeValue::Sequence(elements) => elements,
            other => {
                return Err(OpError::Kind {
                    index: 0,
                    expected: "a sequence",
                    got: other.kind(),
                });
            }
        };
        for index in 1..self.inputs {
            if let RuntimeValue::Sequence(other) = call.require_value(index)?
                && other.len() != first.len()
            {
                return Err(OpError::Value {
                    what: "length of a sequence",
                    expected: format!("{} as input 0 has", first.len()),
                    got: format!("{} of input {index}", other.len()),
                });
            }
        }
        let mut outputs = vec![RuntimeSequence::default(); call.output_count()];
        self.body.with_frame(|frame| {
            for at in 0..first.len() {
                call.check_interrupt()?;
                for index in 0..self.inputs {
                    let value = match call.require_value(index)? {
                        RuntimeValue::Sequence(elements) => elements.get(at).cloned(),
                        other => Some(other.clone()),
                    };
                    frame.set(index, value);
                }
                frame.run(call).map_err(at_iteration(at as u64))?;
                for (index, output) in outputs.iter_mut().enumerate() {
                    let value = frame.output(index).ok_or_else(|| OpError::Value {
                        what: "element of a sequence",
                        expected: "a value".to_string(),
                        got: format!("nothing in output {index} of the body"),
                    })?;
                    let value = own(value, call)?;
                    output.push(value)?;
                }
                frame.clear(call);
            }
            Ok(())
        })?;
        for (index, output) in outputs.into_iter().enumerate() {
            call.set(index, output);
        }
        Ok(())
    }
}
