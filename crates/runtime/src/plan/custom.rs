//! Nodes whose kernels are the caller's own.

use super::build::{Builder, Place};
use crate::error::NodeProblem;
use crate::events::NodeLabel;
use crate::kernel::{Build, Invocation, Kernel, KernelFactory, Kinds, OpError, Slot};
use crate::plan::Step;
use crate::plan::checks::{check_schema, refuse_other_kinds};
use crate::plan::form::Form;
use crate::plan::scope::{Known, Operands, Scope};
use crate::registry::Kernels;
use refeed_graph::attributes::Attributes;
use refeed_graph::schema::Inference;
use refeed_graph::types::{Dim, TensorType, ValueType};
use refeed_proto::{GraphProto, NodeProto};
use refeed_values::{DType, RuntimeValue};
use std::collections::HashMap;
use std::sync::Arc;

/// Domains whose operators refeed knows: one that has no kernel there is an error at once.
const KNOWN_DOMAINS: &[&str] = &["", "ai.onnx.ml", "com.microsoft"];

/// Whether refeed knows the operators of a domain.
pub(super) fn knows(domain: &str) -> bool {
    KNOWN_DOMAINS.contains(&domain)
}

/// The types that a graph declares for its values. Only what the caller's kernels compute is typed by declarations, so
/// they are read only where there is such a node.
#[derive(Clone, Default)]
pub(super) struct Declared(Option<Arc<HashMap<String, ValueType>>>);

impl Declared {
    pub(super) fn of(graph: &GraphProto, kernels: &Kernels) -> Declared {
        let plain = |node: &NodeProto| {
            match node.domain() {
                "ai.onnx" => "",
                domain => domain,
            }
            .to_string()
        };
        let needed = graph.node.iter().any(|node| {
            let domain = plain(node);
            !knows(&domain) || kernels.find(&domain, node.op_type()).is_some()
        });
        if !needed {
            return Declared::default();
        }
        let values = graph.value_info.iter().chain(&graph.output);
        let types = values.map(|info| {
            let ty = ValueType::from_proto(info.r#type.as_ref());
            (info.name().to_string(), ty)
        });
        Declared(Some(Arc::new(types.collect())))
    }

    /// The declared type of a value.
    pub(super) fn ty(&self, name: &str) -> ValueType {
        let held = self.0.as_ref().and_then(|types| types.get(name));
        held.cloned().unwrap_or_default()
    }
}

/// Holds the caller's kernel to the types that the rest of the plan was compiled with.
struct Checked {
    kernel: Box<dyn Kernel>,
    outputs: Box<[ValueType]>,
}

impl Kernel for Checked {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        self.kernel.run(call)?;
        for (index, ty) in self.outputs.iter().enumerate() {
            let value = call.outputs.get(index).and_then(Option::as_ref);
            if let Some(value) = value.filter(|value| !fits(ty, value)) {
                return Err(OpError::Output {
                    index,
                    expected: ty.to_string(),
                    got: shown(value),
                });
            }
        }
        Ok(())
    }

    fn reads(&self) -> Kinds {
        self.kernel.reads()
    }

    fn may_leave_empty(&self) -> bool {
        self.kernel.may_leave_empty()
    }
}

fn fits(ty: &ValueType, value: &RuntimeValue) -> bool {
    match (ty, value) {
        (ValueType::Optional(inside), value) => fits(inside, value),
        (ValueType::Unset, _)
        | (ValueType::Struct(_), RuntimeValue::Struct(_) | RuntimeValue::Encoded(_))
        | (ValueType::Sequence(_), RuntimeValue::Sequence(_)) => true,
        (ValueType::Tensor(ty), RuntimeValue::Tensor(tensor)) => {
            fits_tensor(ty, tensor.dtype(), tensor.shape())
        }
        (ValueType::Tensor(ty), RuntimeValue::Strings(strings)) => {
            fits_tensor(ty, DType::String, strings.shape())
        }
        _ => false,
    }
}

fn fits_tensor(ty: &TensorType, dtype: DType, shape: &[usize]) -> bool {
    ty.dtype.is_none_or(|declared| declared == dtype)
        && ty.shape.as_ref().is_none_or(|dims| {
            let mut pairs = dims.iter().zip(shape);
            dims.len() == shape.len()
                && pairs.all(|(dim, &extent)| !matches!(dim, Dim::Known(n) if *n != extent))
        })
}

fn shown(value: &RuntimeValue) -> String {
    match value {
        RuntimeValue::Tensor(tensor) => {
            TensorType::concrete(tensor.dtype(), tensor.shape()).to_string()
        }
        RuntimeValue::Strings(strings) => {
            TensorType::concrete(DType::String, strings.shape()).to_string()
        }
        other => other.kind().to_string(),
    }
}

impl Builder<'_> {
    /// Builds the caller's kernel for a node. Its outputs have the types that the graph declares, else those that the
    /// operator's schema tells, else none.
    pub(super) fn custom(
        &self,
        scope: &Scope<'_>,
        node: &NodeProto,
        inputs: &[Option<Slot>],
        label: &NodeLabel,
        place: &Place,
        factory: &KernelFactory,
    ) -> Result<(Box<dyn Kernel>, Vec<ValueType>), NodeProblem> {
        let opset = place.version(&label.domain);
        let Operands { types, constants } = scope.operands(inputs);
        let attributes = Attributes::new(node);
        let mut outputs: Vec<ValueType> = node
            .output
            .iter()
            .map(|name| place.declared.ty(name))
            .collect();
        if let Some(schema) = refeed_graph::ops::schema(&label.domain, &label.op_type)
            && check_schema(schema, node, opset).is_ok()
        {
            let mut inference =
                Inference::new(&attributes, opset, &types, &constants, node.output.len());
            // An operator that is given another meaning may have other types.
            if (schema.infer)(&mut inference).is_ok() {
                for (ty, (inferred, _)) in outputs.iter_mut().zip(inference.into_types()) {
                    if *ty == ValueType::Unset {
                        *ty = inferred;
                    }
                }
            }
        }
        let wanted: Vec<bool> = node.output.iter().map(|name| !name.is_empty()).collect();
        let attributes = Attributes::new(node);
        let kernel = factory(&mut Build {
            attributes: &attributes,
            opset,
            node,
            model: self.model,
            inputs: &types,
            constants: &constants,
            outputs: &wanted,
        })?;
        if kernel.reads() == Kinds::Tensors {
            refuse_other_kinds(&types)?;
        }
        let checked = Checked {
            kernel,
            outputs: outputs.clone().into_boxed_slice(),
        };
        Ok((Box::new(checked), outputs))
    }

    /// Adds the step of such a node. It is never computed ahead of a run: the kernel may look at more than its inputs.
    pub(super) fn custom_step(
        &mut self,
        scope: &mut Scope<'_>,
        node: &NodeProto,
        (kernel, types): (Box<dyn Kernel>, Vec<ValueType>),
        inputs: Vec<Option<Slot>>,
        label: NodeLabel,
        place: &Place,
    ) {
        let names = node.output.iter().zip(types);
        let outputs: Vec<Option<Slot>> = names
            .map(|(name, ty)| {
                let known = Known {
                    ty,
                    ..Known::default()
                };
                (!name.is_empty()).then(|| scope.define(name, known))
            })
            .collect();
        if place.call.is_none() && place.within.is_none() {
            self.may_append.extend(outputs.iter().flatten());
        }
        let doubtful = kernel.reads() == Kinds::Tensors
            && inputs
                .iter()
                .flatten()
                .any(|&slot| scope.known(slot).ty == ValueType::Unset);
        scope.steps.push(Step {
            form: Form::Other,
            kernel: kernel.into(),
            inputs: inputs.into_boxed_slice(),
            outputs: outputs.into_boxed_slice(),
            release: Box::default(),
            sites: Box::default(),
            label,
            rewrites_cache: false,
            doubtful,
        });
    }
}
