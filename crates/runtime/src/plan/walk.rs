//! Compiling the body of a loop while its types settle: the rule of the operator says of which types its inputs are, and
//! the plan of the last walk is the one that runs.

use super::build::{Builder, Compiled, Place};
use crate::error::SessionError;
use crate::plan::scope::{Known, Outer};
use refeed_graph::schema::{EnterGraph, InferError};
use refeed_graph::types::ValueType;
use refeed_proto::GraphProto;
use std::collections::BTreeMap;

/// Nodes of bodies that are compiled, on average, for each node of the model, while loops in loops settle. Beyond that a
/// body is compiled once, and nothing is known of its inputs.
pub(super) const REPEATS: usize = 16;
/// Nodes of bodies that may be compiled in the smallest model.
pub(super) const LEAST_WORK: usize = 10_000;

/// Enters one body, as often as its operator's rule asks for.
pub(super) struct Walker<'w, 'm> {
    builder: &'w mut Builder<'m>,
    outer: &'w mut dyn Outer,
    place: Place,
    /// Whether each input of the body is a retained cache.
    caches: &'w [bool],
    /// Problems, attention and uses before the first walk: each walk finds its own.
    problems: usize,
    missing: usize,
    attention: usize,
    counts: BTreeMap<(String, String), usize>,
    compiled: Option<Compiled>,
    failure: Option<SessionError>,
}

impl<'w, 'm> Walker<'w, 'm> {
    pub(super) fn new(
        builder: &'w mut Builder<'m>,
        outer: &'w mut dyn Outer,
        place: Place,
        caches: &'w [bool],
    ) -> Walker<'w, 'm> {
        Walker {
            problems: builder.problems.len(),
            missing: builder.missing.len(),
            attention: builder.attention.len(),
            counts: builder.counts.clone(),
            builder,
            outer,
            place,
            caches,
            compiled: None,
            failure: None,
        }
    }

    fn compile(
        &mut self,
        graph: &GraphProto,
        inputs: &[ValueType],
    ) -> Result<Compiled, SessionError> {
        self.builder.problems.truncate(self.problems);
        self.builder.missing.truncate(self.missing);
        self.builder.attention.truncate(self.attention);
        self.builder.counts.clone_from(&self.counts);
        let known: Vec<Known> = inputs
            .iter()
            .enumerate()
            .map(|(index, ty)| Known {
                ty: ty.clone(),
                constant: None,
                cache: self.caches.get(index).copied().unwrap_or(false),
                bound: None,
            })
            .collect();
        self.builder.nested(graph, &known, self.outer, &self.place)
    }

    /// The body as it was compiled last, or with inputs of which nothing is known when the rule entered it not at all or
    /// gave up.
    pub(super) fn finish(mut self, graph: &GraphProto) -> Result<Compiled, SessionError> {
        match (self.failure.take(), self.compiled.take()) {
            (Some(failure), _) => Err(failure),
            (None, Some(compiled)) => Ok(compiled),
            (None, None) => self.compile(graph, &vec![ValueType::Unset; self.caches.len()]),
        }
    }
}

impl EnterGraph for Walker<'_, '_> {
    fn enter(
        &mut self,
        graph: &GraphProto,
        inputs: &[ValueType],
    ) -> Result<Option<Vec<ValueType>>, InferError> {
        self.compiled = None;
        if self.builder.work == 0 {
            return Ok(None);
        }
        self.builder.work -= 1;
        self.builder.walks += 1;
        let compiled = self.compile(graph, inputs);
        self.builder.walks -= 1;
        match compiled {
            Ok(compiled) => {
                let types = compiled.2.iter().map(|known| known.ty.clone()).collect();
                self.compiled = Some(compiled);
                Ok(Some(types))
            }
            Err(failure) => {
                let text = failure.to_string();
                self.failure = Some(failure);
                Err(InferError::Shape(text))
            }
        }
    }
}
