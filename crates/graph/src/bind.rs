//! Writing bindings into a graph that has none: by pairs, by templates, or by a known naming scheme.
//!
//! Nothing is guessed: a name is bound because a pair names it, or because a template or scheme that the caller asked for
//! fits it, and the report says which. What fits twice is an error.

mod report;
mod schemes;
mod template;

pub use report::{BindReport, BoundPair, MatchedBy};
pub use schemes::{KNOWN, Scheme, schemes};
pub use template::{Ambiguous, Template, TemplateError};

use crate::bindings::BindingUses;
use crate::error::BindError;
use crate::load::shown;
use crate::model::Model;
use crate::publish::{self, Publish};
use refeed_proto::PersistentBindingProto;
use std::collections::{BTreeMap, HashMap};

/// What to bind, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BindRequest {
    /// Exact names: graph input, graph output.
    pub pairs: Vec<(String, String)>,
    /// Templates such as `past.{i}.{kv} -> present.{i}.{kv}`, names of [`schemes`], or `known` for all of them.
    pub patterns: Vec<String>,
    /// How often a bound input may be used; what the graph says when `None`.
    pub uses: Option<BindingUses>,
    /// When outputs are published.
    pub publish: PublishRequest,
}

impl BindRequest {
    /// A request for exact pairs.
    pub fn pairs<I, A, B>(pairs: I) -> BindRequest
    where
        I: IntoIterator<Item = (A, B)>,
        A: Into<String>,
        B: Into<String>,
    {
        let pairs = pairs
            .into_iter()
            .map(|(input, output)| (input.into(), output.into()))
            .collect();
        BindRequest {
            pairs,
            ..BindRequest::default()
        }
    }

    /// A request for templates and schemes.
    pub fn patterns<I, A>(patterns: I) -> BindRequest
    where
        I: IntoIterator<Item = A>,
        A: Into<String>,
    {
        BindRequest {
            patterns: patterns.into_iter().map(Into::into).collect(),
            ..BindRequest::default()
        }
    }

    /// Sets [`BindRequest::uses`].
    #[must_use]
    pub fn with_uses(mut self, uses: BindingUses) -> BindRequest {
        self.uses = Some(uses);
        self
    }

    /// Sets the policy of one bound input, or of all that a template such as `past.{i}.encoder.{kv}` fits.
    #[must_use]
    pub fn with_publish(mut self, input: impl Into<String>, publish: Publish) -> BindRequest {
        self.publish.inputs.insert(input.into(), publish);
        self
    }
}

/// Publication policies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublishRequest {
    /// For every bound input that nothing else names. When `None`, bindings that the graph already has keep theirs, and
    /// new ones are published always, or as their scheme says.
    pub all: Option<Publish>,
    /// For single inputs, or for all that a template such as `past.{i}.encoder.{kv}` fits.
    pub inputs: BTreeMap<String, Publish>,
}

/// A pair that was found, and what found it.
struct Found {
    input: String,
    output: String,
    by: MatchedBy,
    publish: Publish,
}

/// Pairs so far; one output per input and one input per output.
#[derive(Default)]
struct Pairing {
    found: Vec<Found>,
    by_input: HashMap<String, usize>,
    by_output: HashMap<String, usize>,
}

impl Pairing {
    fn add(&mut self, new: Found) -> Result<(), BindError> {
        if let Some(&index) = self.by_input.get(&new.input) {
            let held = &self.found[index];
            if held.output == new.output {
                return Ok(());
            }
            return Err(BindError::TwoOutputs {
                input: new.input,
                first: held.output.clone(),
                first_by: held.by.to_string(),
                second: new.output,
                second_by: new.by.to_string(),
            });
        }
        if let Some(&index) = self.by_output.get(&new.output) {
            let held = &self.found[index];
            return Err(BindError::TwoInputs {
                output: new.output,
                first: held.input.clone(),
                first_by: held.by.to_string(),
                second: new.input,
                second_by: new.by.to_string(),
            });
        }
        self.by_input.insert(new.input.clone(), self.found.len());
        self.by_output.insert(new.output.clone(), self.found.len());
        self.found.push(new);
        Ok(())
    }
}

/// A model with the requested bindings in its graph, verified, and what was bound by what. Bindings that the graph has
/// stay. Payloads are shared with `model`.
///
/// # Errors
/// When a pair names what the graph does not have, a template or scheme fits nothing or is none, an input or output would
/// be bound twice, or the result breaks a rule of bindings.
pub fn bind(model: &Model, request: &BindRequest) -> Result<(Model, BindReport), BindError> {
    let mut warnings = Vec::new();
    let mut pairing = Pairing::default();
    for binding in model.bindings() {
        pairing.add(Found {
            input: binding.input.to_string(),
            output: binding.output.to_string(),
            by: MatchedBy::Graph,
            publish: binding.publish,
        })?;
    }
    for (input, output) in &request.pairs {
        check_pair(model, input, output)?;
        let (input, output) = (input.clone(), output.clone());
        pairing.add(Found {
            input,
            output,
            by: MatchedBy::Pair,
            publish: Publish::Always,
        })?;
    }
    for pattern in &request.patterns {
        for found in match_pattern(model, pattern.trim(), &mut warnings)? {
            pairing.add(found)?;
        }
    }
    if pairing.found.is_empty() {
        return Err(BindError::Nothing);
    }
    set_publish(&mut pairing.found, &request.publish)?;

    let uses = request.uses.unwrap_or(model.binding_uses());
    let mut proto = model.proto().clone();
    // The graph is where bindings are, so the policies go there; those on the model's own list move along.
    proto
        .metadata_props
        .retain(|entry| !entry.key().starts_with(publish::KEY_PREFIX));
    if let Some(graph) = &mut proto.graph {
        let policies = pairing
            .found
            .iter()
            .map(|found| (found.input.as_str(), found.publish));
        publish::write(&mut graph.metadata_props, uses, policies);
        graph.persistent_bindings = pairing
            .found
            .iter()
            .map(|found| PersistentBindingProto {
                input_name: Some(found.input.clone()),
                output_name: Some(found.output.clone()),
                ..PersistentBindingProto::default()
            })
            .collect();
    }
    let bound = model.with_proto(proto)?;
    let counted = bound.check_binding_uses(None)?;
    let pairs = pairing
        .found
        .into_iter()
        .zip(bound.bindings())
        .zip(counted)
        .map(|((found, binding), uses)| BoundPair {
            input_type: bound.inputs()[binding.input_index].ty.to_string(),
            output_type: bound.outputs()[binding.output_index].ty.to_string(),
            input: found.input,
            output: found.output,
            by: found.by,
            publish: binding.publish,
            uses,
        })
        .collect();
    Ok((
        bound,
        BindReport {
            pairs,
            uses,
            warnings,
        },
    ))
}

/// Holds an explicit pair to the graph's names, so that the message can point to a near one.
fn check_pair(model: &Model, input: &str, output: &str) -> Result<(), BindError> {
    for (role, name, values) in [
        ("input", input, model.inputs()),
        ("output", output, model.outputs()),
    ] {
        if values.iter().all(|value| &*value.name != name) {
            let plain = |text: &str| -> String {
                text.chars()
                    .filter(|c| c.is_alphanumeric())
                    .flat_map(char::to_lowercase)
                    .collect()
            };
            let nearest = values
                .iter()
                .find(|value| plain(&value.name) == plain(name));
            return Err(BindError::UnknownName {
                input: input.to_string(),
                output: output.to_string(),
                role,
                nearest: nearest.map(|value| value.name.to_string()),
            });
        }
    }
    Ok(())
}

fn names(values: &[crate::types::ValueInfo]) -> String {
    const SHOWN: usize = 8;
    let mut list: Vec<String> = values
        .iter()
        .take(SHOWN)
        .map(|value| format!("`{}`", shown(&value.name)))
        .collect();
    if values.len() > SHOWN {
        list.push(format!("and {} more", values.len() - SHOWN));
    }
    if list.is_empty() {
        "none".to_string()
    } else {
        list.join(", ")
    }
}

fn match_pattern(
    model: &Model,
    pattern: &str,
    warnings: &mut Vec<String>,
) -> Result<Vec<Found>, BindError> {
    let no_match = |by: String| BindError::NoMatch {
        by,
        inputs: names(model.inputs()),
        outputs: names(model.outputs()),
    };
    if pattern.contains("->") {
        let template = Template::new(pattern).map_err(|error| BindError::Template {
            template: pattern.to_string(),
            fault: error.to_string(),
        })?;
        let by = MatchedBy::Template(pattern.to_string());
        let found = match_template(model, &template, &by, Publish::Always, Some(warnings))?;
        return if found.is_empty() {
            Err(no_match(by.to_string()))
        } else {
            Ok(found)
        };
    }
    let chosen: Vec<&Scheme> = schemes()
        .iter()
        .filter(|scheme| pattern == KNOWN || scheme.name == pattern)
        .collect();
    if chosen.is_empty() {
        let known: Vec<&str> = schemes().iter().map(|scheme| scheme.name).collect();
        return Err(BindError::UnknownScheme {
            name: pattern.to_string(),
            known: known.join(", "),
        });
    }
    let mut found = Vec::new();
    for scheme in chosen {
        for &(text, publish) in scheme.templates {
            let template = Template::new(text).map_err(|error| BindError::Template {
                template: text.to_string(),
                fault: error.to_string(),
            })?;
            let by = MatchedBy::Scheme(scheme.name);
            found.extend(match_template(model, &template, &by, publish, None)?);
        }
    }
    if found.is_empty() {
        let by = if pattern == KNOWN {
            "the table of known schemes".to_string()
        } else {
            format!("scheme {pattern}")
        };
        return Err(no_match(by));
    }
    Ok(found)
}

/// The pairs that a template finds. An input without a counterpart stays an ordinary input, with a warning when the
/// caller wrote the template.
fn match_template(
    model: &Model,
    template: &Template,
    by: &MatchedBy,
    publish: Publish,
    mut warnings: Option<&mut Vec<String>>,
) -> Result<Vec<Found>, BindError> {
    let mut found = Vec::new();
    for input in model.inputs() {
        let output = template
            .output_of(&input.name)
            .map_err(|_| BindError::AmbiguousTemplate {
                template: template.to_string(),
                name: input.name.to_string(),
            })?;
        let Some(output) = output else { continue };
        if model.outputs().iter().all(|value| *value.name != *output) {
            if let Some(warnings) = &mut warnings {
                warnings.push(format!(
                    "input `{}` fits `{template}`, but the graph has no output `{}`: it stays an ordinary input",
                    shown(&input.name),
                    shown(&output)
                ));
            }
            continue;
        }
        found.push(Found {
            input: input.name.to_string(),
            output,
            by: by.clone(),
            publish,
        });
    }
    Ok(found)
}

fn set_publish(found: &mut [Found], request: &PublishRequest) -> Result<(), BindError> {
    let mut set = vec![false; found.len()];
    for (name, &publish) in &request.inputs {
        // An exact name comes before a template: names are literal and may hold braces.
        let exact = found.iter().position(|pair| pair.input == *name);
        let mut fits: Vec<usize> = exact.into_iter().collect();
        if exact.is_none() && name.contains('{') {
            let template = template::Side::new(name).map_err(|error| BindError::Template {
                template: name.clone(),
                fault: error.to_string(),
            })?;
            fits = (0..found.len())
                .filter(|&index| template.fits(&found[index].input))
                .collect();
        }
        if fits.is_empty() {
            let bound: Vec<String> = found
                .iter()
                .map(|pair| format!("`{}`", shown(&pair.input)))
                .collect();
            return Err(BindError::PublishUnbound {
                name: name.clone(),
                bound: bound.join(", "),
            });
        }
        for index in fits {
            if std::mem::replace(&mut set[index], true) {
                return Err(BindError::PublishTwice {
                    input: found[index].input.clone(),
                });
            }
            found[index].publish = publish;
        }
    }
    if let Some(all) = request.all {
        for (pair, _) in found.iter_mut().zip(set).filter(|(_, set)| !set) {
            pair.publish = all;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
