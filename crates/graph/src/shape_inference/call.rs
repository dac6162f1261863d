//! Calls of model-local functions: the body is walked with the types of the arguments, once for each kind of call.

use super::driver::{Driver, Place};
use super::error::Fault;
use super::scope::{Known, Scope};
use crate::functions::instantiate;
use crate::path::{Path, Step};
use crate::validate::Opsets;
use refeed_proto::{FunctionProto, Message, NodeProto};

/// Longer signatures are not kept: calls that carry weights as attributes seldom repeat.
const SIGNATURE_LIMIT: usize = 4096;

impl Driver<'_> {
    /// What a call gives, output by output; `None` when it does not fit the function or is not followed.
    pub(super) fn call(
        &mut self,
        function: &FunctionProto,
        call: &NodeProto,
        arguments: Vec<Option<Known>>,
        at: &dyn Fn() -> String,
        place: &Place<'_>,
    ) -> Option<Vec<Known>> {
        let signature = signature(function, call, &arguments);
        if let Some(held) = signature.as_ref().and_then(|held| self.calls.get(held)) {
            return Some(held.clone());
        }
        let body = match instantiate(function, call) {
            Ok(body) => body,
            Err(error) => {
                self.problem(at(), Fault::Call(error.to_string()));
                return None;
            }
        };
        let own = match function.opset_import.is_empty() {
            true => None,
            false => match Opsets::new(&Path::of(Step::Function(function)), &function.opset_import)
            {
                Ok(opsets) => Some(opsets),
                Err(error) => {
                    self.problem(at(), Fault::Call(error.to_string()));
                    return None;
                }
            },
        };
        if !self.descend(at) {
            return None;
        }
        self.in_call += 1;
        let mark = self.mark();
        let mut scope = Scope::default();
        let mut arguments = arguments.into_iter();
        for formal in &function.input {
            scope.define(formal, arguments.next().flatten());
        }
        let prefix = format!("{} / ", at());
        let inner = Place {
            opsets: own.as_ref().unwrap_or(place.opsets),
            prefix: &prefix,
        };
        self.nodes(&mut scope, &body, &inner);
        let outputs = function.output.iter().zip(&call.output).map(|(name, _)| {
            let known = scope.lookup(name).unwrap_or_default();
            Driver::outside(known, mark)
        });
        let outputs: Vec<Known> = outputs.collect();
        self.in_call -= 1;
        self.ascend();
        if let Some(signature) = signature {
            self.calls.insert(signature, outputs.clone());
        }
        Some(outputs)
    }
}

/// All that the result of a call depends on, as bytes; `None` when that is long.
fn signature(
    function: &FunctionProto,
    call: &NodeProto,
    arguments: &[Option<Known>],
) -> Option<Vec<u8>> {
    let mut out = std::ptr::from_ref(function).addr().to_le_bytes().to_vec();
    let mut add = |part: &[u8]| {
        // Lengths keep parts apart.
        out.extend_from_slice(&(part.len() as u64).to_le_bytes());
        out.extend_from_slice(part);
        (out.len() <= SIGNATURE_LIMIT).then_some(())
    };
    add(&call.output.len().to_le_bytes())?;
    for attribute in &call.attribute {
        if attribute.encoded_len() > SIGNATURE_LIMIT {
            return None;
        }
        add(&attribute.encode_to_vec())?;
    }
    for argument in arguments {
        let Some(known) = argument else {
            add(b"absent")?;
            continue;
        };
        add(&known.ty.to_proto().encode_to_vec())?;
        add(format!("{:?}", known.value).as_bytes())?;
        // The type of a constant may say less than the constant.
        match &known.constant {
            None => add(b"")?,
            Some(tensor) => {
                add(format!("{} {:?}", tensor.dtype(), tensor.shape()).as_bytes())?;
                add(tensor.as_bytes()?)?;
            }
        }
    }
    Some(out)
}
