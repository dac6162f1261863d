//! Calls of model-local functions: their bodies are compiled in place.

use super::build::{Builder, Opsets, Place};
use crate::error::{NodePath, SessionError};
use crate::plan::appends::BoundOutputs;
use crate::plan::custom::Declared;
use crate::plan::scope::Scope;
use refeed_graph::ModelError;
use refeed_graph::functions::instantiate;
use refeed_proto::{FunctionProto, NodeProto};
use std::collections::HashMap;
use std::sync::Arc;

/// How deep calls of model-local functions may nest.
const CALL_DEPTH: usize = 100;

impl Builder<'_> {
    /// Compiles the body of a model-local function in the caller's slots, under its own names.
    pub(super) fn inline(
        &mut self,
        scope: &mut Scope<'_>,
        call: &NodeProto,
        function: &FunctionProto,
        index: usize,
        place: &Place,
    ) -> Result<(), SessionError> {
        if place.depth == CALL_DEPTH {
            let (limit, got) = (CALL_DEPTH as u64, CALL_DEPTH as u64 + 1);
            let at = format!("call `{}`", call.op_type());
            return Err(ModelError::Limit {
                at,
                what: "nested function calls",
                limit,
                got,
            }
            .into());
        }
        let body = instantiate(function, call)?;
        let mut names = HashMap::new();
        for (position, formal) in function.input.iter().enumerate() {
            let actual = call
                .input
                .get(position)
                .map(String::as_str)
                .unwrap_or_default();
            if actual.is_empty() {
                continue;
            }
            let slot = scope
                .lookup(actual)
                .ok_or_else(|| SessionError::Undefined {
                    node: NodePath {
                        index,
                        name: Arc::from(call.name()),
                        domain: Arc::from(call.domain()),
                        op_type: Arc::from(call.op_type()),
                        within: place.within.clone(),
                    },
                    name: actual.to_string(),
                })?;
            names.insert(formal.clone(), slot);
        }
        let outside = std::mem::replace(&mut scope.names, names);
        let outer = scope.outer.take();
        let opsets = if function.opset_import.is_empty() {
            place.opsets.clone()
        } else {
            Arc::new(Opsets::new(&function.opset_import))
        };
        let inner = Place {
            opsets,
            call: Some(index),
            depth: place.depth + 1,
            declared: Declared::default(),
            // Names inside of the function are others.
            bound: BoundOutputs::default(),
            ..place.clone()
        };
        let compiled = self.nodes(scope, &body, &inner);
        let inside = std::mem::replace(&mut scope.names, outside);
        scope.outer = outer;
        compiled?;
        for (formal, actual) in function.output.iter().zip(&call.output) {
            if actual.is_empty() {
                continue;
            }
            let slot = inside
                .get(formal)
                .ok_or_else(|| SessionError::NoProducer(formal.clone()))?;
            scope.names.insert(actual.clone(), *slot);
        }
        Ok(())
    }
}
