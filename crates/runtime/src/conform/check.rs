//! The walk of a value beside its declaration.

use super::Table;
use super::error::ConformError;
use super::facts::{Bound, Bounds, Facts};
use super::rule::{DimRule, Expected, Layout, PageRule, Rule, StructRule, TensorRule};
use refeed_graph::ModelError;
use refeed_graph::types::Dim;
use refeed_graph::values::{Catalogues, check_encoded};
use refeed_values::paged_cache::{self, CacheDims, PageFault, PageRun};
use refeed_values::{
    DType, EncodedValue, RuntimeSequence, RuntimeValue, SequenceMemo, StructValue,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub(super) fn check(
    rule: &Rule,
    value: &RuntimeValue,
    table: &mut Table,
) -> Result<Option<ConformError>, ConformError> {
    let mut walk = Walk {
        role: rule.role,
        name: &rule.name,
        path: Vec::new(),
        fields: rule.number,
        catalogues: &rule.catalogues,
        memos: &mut table.memos,
        extents: Extents::Table(&mut table.values),
        clash: None,
    };
    walk.value(&rule.expected, value)?;
    Ok(walk.clash)
}

/// Where the walk stands, below the value that it started at.
#[derive(Clone, Copy)]
enum Step<'w> {
    Field(&'w str),
    Index(usize),
}

/// Where extents of symbols go.
enum Extents<'t> {
    /// To the table of the call, which they must agree with.
    Table(&'t mut Vec<Option<usize>>),
    /// To what is known of a part of a sequence, which is held to the table later, as a whole.
    Part(&'t mut Bounds),
}

struct Walk<'t, 'w> {
    role: &'static str,
    name: &'w Arc<str>,
    path: Vec<Step<'w>>,
    /// Stands for the rule and the fields of the path. Two paths that have one number share memos, which costs time only.
    fields: u64,
    /// What encoded values may refer to.
    catalogues: &'w Catalogues,
    memos: &'t mut HashMap<(usize, u64), SequenceMemo<Facts>>,
    extents: Extents<'t>,
    /// The first symbol that contradicts the table.
    clash: Option<ConformError>,
}

type Checked = Result<(), ConformError>;

impl<'w> Walk<'_, 'w> {
    /// The name of the part where the walk stands.
    fn place(&self) -> Arc<str> {
        if self.path.is_empty() {
            return self.name.clone();
        }
        let mut text = self.name.to_string();
        for step in &self.path {
            match step {
                Step::Field(field) => {
                    text.push('.');
                    text.push_str(field);
                }
                Step::Index(index) => text.push_str(&format!("[{index}]")),
            }
        }
        text.into()
    }

    fn kind(&self, expected: &'static str, value: &RuntimeValue) -> Checked {
        Err(ConformError::Kind {
            role: self.role,
            name: self.place(),
            expected,
            got: value.kind(),
        })
    }

    fn value(&mut self, expected: &'w Expected, value: &'w RuntimeValue) -> Checked {
        #[cfg(feature = "testing")]
        if refeed_values::testing::strike(crate::testing::Site::Validation) {
            return Err(ConformError::Injected {
                role: self.role,
                name: self.place(),
            });
        }
        match (expected, value) {
            (Expected::Anything, _) => Ok(()),
            (Expected::Tensor(rule), RuntimeValue::Tensor(tensor)) => {
                self.tensor(rule, tensor.dtype(), tensor.shape())
            }
            (Expected::Tensor(rule), RuntimeValue::Encoded(encoded)) => match encoded.logical() {
                Some((dtype, shape)) => {
                    self.parameters(encoded)?;
                    self.tensor(rule, dtype, shape)
                }
                None => Err(ConformError::Encoding {
                    role: self.role,
                    name: self.place(),
                    expected: "a tensor".to_string(),
                    got: "an encoded value without a decoded type".to_string(),
                }),
            },
            (Expected::Tensor(rule), RuntimeValue::Strings(strings)) => {
                self.tensor(rule, DType::String, strings.shape())
            }
            (Expected::Tensor(_), other) => self.kind("a tensor", other),
            (Expected::Struct(rule), RuntimeValue::Encoded(encoded)) => self.encoded(rule, encoded),
            (Expected::Struct(rule), RuntimeValue::Struct(fields)) => {
                self.structure(rule, value, fields)
            }
            (Expected::Struct(_), other) => self.kind("a structured value", other),
            (Expected::Sequence(element, memo), RuntimeValue::Sequence(elements)) => {
                self.sequence(element, *memo, elements)
            }
            (Expected::Sequence(..), other) => self.kind("a sequence", other),
        }
    }

    fn tensor(&mut self, rule: &'w TensorRule, got: DType, shape: &[usize]) -> Checked {
        if let Some(expected) = rule.dtype
            && expected != got
        {
            return Err(ConformError::DType {
                role: self.role,
                name: self.place(),
                expected,
                got,
            });
        }
        let Some(dims) = &rule.dims else {
            return Ok(());
        };
        if dims.len() != shape.len() {
            return Err(ConformError::Rank {
                role: self.role,
                name: self.place(),
                expected: dims.len(),
                got: shape.to_vec(),
            });
        }
        let declared = rule.declared.shape.as_deref().unwrap_or_default();
        self.dims(dims, declared, shape, &|| rule.declared.to_string())
    }

    /// Extents against as many declared ones.
    fn dims(
        &mut self,
        dims: &[DimRule],
        declared: &[Dim],
        shape: &[usize],
        text: &dyn Fn() -> String,
    ) -> Checked {
        for (axis, (dim, &extent)) in dims.iter().zip(shape).enumerate() {
            match *dim {
                DimRule::Any => {}
                DimRule::Exactly(n) if n == extent => {}
                DimRule::Exactly(_) => {
                    return Err(ConformError::Extent {
                        role: self.role,
                        name: self.place(),
                        axis,
                        expected: text(),
                        got: shape.to_vec(),
                    });
                }
                DimRule::Symbol(symbol) => {
                    let Some(expected) = self.bind(symbol, extent) else {
                        continue;
                    };
                    if self.clash.is_none() {
                        let symbol = match declared.get(axis) {
                            Some(Dim::Symbol(symbol)) => symbol.clone(),
                            _ => Arc::from(""),
                        };
                        self.clash = Some(ConformError::Symbol {
                            role: self.role,
                            name: self.place(),
                            symbol,
                            expected,
                            axis,
                            got: shape.to_vec(),
                        });
                    }
                }
            }
        }
        Ok(())
    }

    /// Notes the extent of a symbol; the one that it has elsewhere, when they differ.
    fn bind(&mut self, symbol: usize, extent: usize) -> Option<usize> {
        match &mut self.extents {
            Extents::Part(bounds) => {
                bounds.add(Bound {
                    symbol,
                    least: extent,
                    most: extent,
                });
                None
            }
            Extents::Table(values) => match values[symbol] {
                None => {
                    values[symbol] = Some(extent);
                    None
                }
                Some(known) => (known != extent).then_some(known),
            },
        }
    }

    fn encoded(&mut self, rule: &StructRule, value: &EncodedValue) -> Checked {
        self.parameters(value)?;
        check_encoded(value, &rule.declared, self.catalogues).or_else(|error| self.refuse(error))
    }

    /// The shared parameters that an encoded value refers to must be those of the model.
    fn parameters(&self, value: &EncodedValue) -> Checked {
        let known = self.catalogues.parameters();
        known.validate(value).or_else(|error| self.refuse(error))
    }

    fn refuse(&self, error: ModelError) -> Checked {
        let (at, expected, got) = match error {
            ModelError::Field(fault) => (fault.at, fault.expected, fault.got),
            other => (
                String::new(),
                "a type that can be compared".to_string(),
                other.to_string(),
            ),
        };
        let name = match at.as_str() {
            "" => self.place(),
            at => format!("{}: {at}", self.place()).into(),
        };
        Err(ConformError::Encoding {
            role: self.role,
            name,
            expected,
            got,
        })
    }

    fn structure(
        &mut self,
        rule: &'w StructRule,
        value: &'w RuntimeValue,
        fields: &'w StructValue,
    ) -> Checked {
        if let Some((pages, memo)) = &rule.cache
            && (matches!(rule.layout, Layout::Category) || paged_cache::blocks(value).is_some())
        {
            return self.cache(pages, *memo, value);
        }
        match &rule.layout {
            Layout::Fields(declared, places) => {
                let (mut found, outside) = (0, self.fields);
                for (position, (name, field)) in fields.iter().enumerate() {
                    // Most values have their fields in the declared order.
                    let at = match declared.get(position) {
                        Some((declared, _)) if declared == name => Some(position),
                        _ => places.get(name).copied(),
                    };
                    let Some(at) = at else {
                        self.first_missing(declared, fields)?;
                        return Err(ConformError::UnexpectedField {
                            role: self.role,
                            name: self.place(),
                            field: name.clone(),
                        });
                    };
                    found += 1;
                    self.path.push(Step::Field(name));
                    self.fields = below(outside, at);
                    self.value(&declared[at].1, field)?;
                    self.fields = outside;
                    self.path.pop();
                }
                // Names are different, so as many as are declared are all of them.
                if found < declared.len() {
                    self.first_missing(declared, fields)?;
                }
                Ok(())
            }
            Layout::Category | Layout::Packed => self.kind("an encoded value", value),
        }
    }

    /// Fails for the first declared field that a struct does not have.
    fn first_missing(
        &self,
        declared: &[(Arc<str>, Arc<Expected>)],
        fields: &StructValue,
    ) -> Checked {
        let there: HashSet<&str> = fields.iter().map(|(name, _)| &**name).collect();
        let missing = declared.iter().find(|(name, _)| !there.contains(&**name));
        match missing {
            None => Ok(()),
            Some((field, _)) => Err(ConformError::MissingField {
                role: self.role,
                name: self.place(),
                field: field.clone(),
            }),
        }
    }

    fn sequence(
        &mut self,
        element: &'w Expected,
        memo: usize,
        elements: &'w RuntimeSequence,
    ) -> Checked {
        // The memo of a sequence is not needed inside its elements: types do not contain themselves.
        let key = (memo, self.fields);
        let mut known = self.memos.remove(&key).unwrap_or_default();
        let mut leaf = |index, value: &'w RuntimeValue| self.element(element, index, value);
        let mut join = |front: &Facts, back: &Facts| Ok(front.join(back, None));
        let folded = elements.fold(&mut known, &mut leaf, &mut join);
        let told = folded.and_then(|facts| {
            let look = |walk: &mut Self, index, value| walk.at(index, element, value);
            self.tell(facts.as_ref(), &known, elements, look)
        });
        self.memos.insert(key, known);
        told
    }

    /// One element by itself: what its parts say of symbols is collected, not compared.
    fn element(
        &mut self,
        expected: &'w Expected,
        index: usize,
        value: &'w RuntimeValue,
    ) -> Result<Facts, ConformError> {
        let mut bounds = Bounds::default();
        let mut part = self.part(&mut bounds);
        part.at(index, expected, value)?;
        Ok(Facts::new(bounds, None))
    }

    /// The walk of an element, at its place.
    fn at(&mut self, index: usize, expected: &'w Expected, value: &'w RuntimeValue) -> Checked {
        self.path.push(Step::Index(index));
        self.value(expected, value)?;
        self.path.pop();
        Ok(())
    }

    /// A walk from here on that collects extents.
    fn part<'p>(&'p mut self, bounds: &'p mut Bounds) -> Walk<'p, 'w> {
        Walk {
            role: self.role,
            name: self.name,
            path: self.path.clone(),
            fields: self.fields,
            catalogues: self.catalogues,
            memos: self.memos,
            extents: Extents::Part(bounds),
            clash: None,
        }
    }

    /// Holds what is known of a whole sequence to the table. Where they contradict each other, the first element that
    /// does is looked at again, for its name.
    fn tell(
        &mut self,
        facts: Option<&Facts>,
        memo: &SequenceMemo<Facts>,
        elements: &'w RuntimeSequence,
        mut look: impl FnMut(&mut Self, usize, &'w RuntimeValue) -> Checked,
    ) -> Checked {
        for bound in facts.into_iter().flat_map(Facts::iter) {
            let symbol = bound.symbol;
            let known = match &mut self.extents {
                Extents::Part(bounds) => {
                    bounds.add(*bound);
                    continue;
                }
                Extents::Table(values) => &mut values[symbol],
            };
            if known.is_none() {
                let first = elements.locate(memo, |facts| facts.get(symbol).is_some());
                match first {
                    Some((index, value)) if bound.least != bound.most => look(self, index, value)?,
                    _ => *known = Some(bound.least),
                }
            }
            let Extents::Table(values) = &self.extents else {
                continue;
            };
            let Some(expected) = values[symbol] else {
                continue;
            };
            if self.clash.is_none() && !bound.is(expected) {
                let other = |facts: &Facts| facts.get(symbol).is_some_and(|b| !b.is(expected));
                if let Some((index, value)) = elements.locate(memo, other) {
                    look(self, index, value)?;
                }
            }
        }
        Ok(())
    }

    /// A paged cache by the rules of caches, and its pages by what is declared of them.
    fn cache(&mut self, pages: &'w PageRule, memo: usize, cache: &'w RuntimeValue) -> Checked {
        let Some(blocks) = paged_cache::blocks(cache) else {
            return self.refuse_cache(cache, None);
        };
        // Its pages know together that they keep the rules, and their extents; whoever holds the cache.
        if paged_cache::is_whole_cache(cache)
            && let Ok(found) = paged_cache::check(cache)
            && found.dims.is_none_or(|dims| self.agrees(pages, &dims))
        {
            return Ok(());
        }
        let key = (memo, self.fields);
        let mut known = self.memos.remove(&key).unwrap_or_default();
        let mut leaf = |index, page: &'w RuntimeValue| {
            let run = PageRun::of(page).map_err(Fault::Page)?;
            let mut bounds = Bounds::default();
            let mut part = self.part(&mut bounds);
            part.page(pages, index, page).map_err(Fault::Conform)?;
            Ok(Facts::new(bounds, Some(run)))
        };
        let mut join = |front: &Facts, back: &Facts| {
            let run = match (&front.run, &back.run) {
                (Some(front), Some(back)) => Some(front.join(back).map_err(Fault::Page)?),
                _ => None,
            };
            Ok(front.join(back, run))
        };
        let folded = blocks.fold(&mut known, &mut leaf, &mut join);
        let folded = folded.and_then(|facts| {
            if let Some(run) = facts.as_ref().and_then(|facts| facts.run) {
                PageRun::after(None, run).map_err(Fault::Page)?;
            }
            Ok(facts)
        });
        let told = match folded {
            Ok(facts) => {
                let look = |walk: &mut Self, index, page| walk.page(pages, index, page);
                self.tell(facts.as_ref(), &known, blocks, look)
            }
            Err(Fault::Conform(error)) => Err(error),
            // Which page it is, the check of the whole tells.
            Err(Fault::Page(fault)) => self.refuse_cache(cache, Some(fault)),
        };
        self.memos.insert(key, known);
        told
    }

    /// Whether what all pages agree in is as declared, and symbols are what they are elsewhere; then they are noted. What
    /// else there is, a look at each page tells, with its place.
    fn agrees(&mut self, pages: &PageRule, dims: &CacheDims) -> bool {
        let mut found = Bounds::default();
        let sides = [
            (&pages.key, dims.key_width),
            (&pages.value, dims.value_width),
        ];
        for (declared, width) in sides {
            let Some((rules, _)) = declared else {
                continue;
            };
            let extents = [
                (dims.batch, dims.batch),
                (dims.heads, dims.heads),
                (dims.least_capacity, dims.most_capacity),
                (width, width),
            ];
            for (rule, (least, most)) in rules.iter().zip(extents) {
                match *rule {
                    DimRule::Any => {}
                    DimRule::Exactly(n) if (least, most) == (n, n) => {}
                    DimRule::Exactly(_) => return false,
                    DimRule::Symbol(symbol) => found.add(Bound {
                        symbol,
                        least,
                        most,
                    }),
                }
            }
        }
        match &mut self.extents {
            Extents::Part(bounds) => found.iter().for_each(|bound| bounds.add(*bound)),
            Extents::Table(values) => {
                let fits = |bound: &Bound| bound.is(values[bound.symbol].unwrap_or(bound.least));
                if !found.iter().all(fits) {
                    return false;
                }
                for bound in found.iter() {
                    values[bound.symbol] = Some(bound.least);
                }
            }
        }
        true
    }

    /// The extents of one page.
    fn page(&mut self, pages: &'w PageRule, index: usize, page: &'w RuntimeValue) -> Checked {
        self.path.push(Step::Field(paged_cache::BLOCKS));
        self.path.push(Step::Index(index));
        for (name, declared) in [("key", &pages.key), ("value", &pages.value)] {
            let payload = page.fields().and_then(|fields| fields.get(name));
            let shape = match payload {
                Some(RuntimeValue::Tensor(tensor)) => tensor.shape(),
                Some(RuntimeValue::Encoded(encoded)) => {
                    self.parameters(encoded)?;
                    encoded.shape()
                }
                _ => continue,
            };
            if let Some((rules, declared)) = declared {
                self.path.push(Step::Field(name));
                let text = || declared_text(declared);
                self.dims(rules, declared, shape, &text)?;
                self.path.pop();
            }
        }
        self.path.truncate(self.path.len() - 2);
        Ok(())
    }

    fn refuse_cache(&self, cache: &RuntimeValue, found: Option<PageFault>) -> Checked {
        let fault = match (paged_cache::check(cache), found) {
            (Err(fault), _) | (Ok(_), Some(fault)) => fault,
            (Ok(_), None) => return Ok(()),
        };
        let mut name = self.place().to_string();
        if let Some(block) = fault.block {
            name.push_str(&format!(".{}[{block}]", paged_cache::BLOCKS));
            if !fault.field.is_empty() {
                name.push('.');
                name.push_str(&fault.field);
            }
        }
        Err(ConformError::Page {
            role: self.role,
            name: name.into(),
            expected: fault.expected,
            got: fault.got,
        })
    }
}

/// Why a fold over pages stopped.
enum Fault {
    Page(PageFault),
    Conform(ConformError),
}

/// The number of a field's path.
fn below(fields: u64, position: usize) -> u64 {
    let mixed = fields.rotate_left(5) ^ (position as u64 + 1);
    mixed.wrapping_mul(0x517c_c1b7_2722_0a95)
}

fn declared_text(declared: &[Dim]) -> String {
    let dims: Vec<String> = declared.iter().map(Dim::to_string).collect();
    format!("[{}]", dims.join(", "))
}
