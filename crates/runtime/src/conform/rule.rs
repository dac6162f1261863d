//! Declared types, prepared for checking.

use super::{ConformError, Table, check};
use refeed_graph::Model;
use refeed_graph::ModelError;
use refeed_graph::types::{Dim, TensorType, ValueType};
use refeed_graph::values::{Catalogues, declared_pages};
use refeed_proto::StructTypeProto;
use refeed_proto::struct_type_proto::Kind;
use refeed_proto::struct_type_proto::structure::field::Content;
use refeed_values::{DType, RuntimeValue};
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug, Clone, Copy)]
pub(super) enum DimRule {
    Any,
    Exactly(usize),
    Symbol(usize),
}

/// The declaration of a tensor.
#[derive(Debug)]
pub(super) struct TensorRule {
    pub(super) dtype: Option<DType>,
    pub(super) dims: Option<Box<[DimRule]>>,
    /// The declaration, for messages.
    pub(super) declared: TensorType,
}

/// The declaration of a struct.
#[derive(Debug)]
pub(super) struct StructRule {
    pub(super) declared: Arc<StructTypeProto>,
    pub(super) layout: Layout,
    /// What is declared of pages, when it is a cache, and the memo of its blocks.
    pub(super) cache: Option<(PageRule, usize)>,
}

#[derive(Debug)]
pub(super) enum Layout {
    /// Any paged cache.
    Category,
    /// Named fields, in the order of declaration, and where each name stands.
    Fields(Box<[(Arc<str>, Arc<Expected>)]>, HashMap<Arc<str>, usize>),
    /// Bits: only encoded values are of such a type.
    Packed,
}

/// What a declaration says of the keys and values of each page, and the same for messages.
#[derive(Debug, Default)]
pub(super) struct PageRule {
    pub(super) key: Option<([DimRule; 4], [Dim; 4])>,
    pub(super) value: Option<([DimRule; 4], [Dim; 4])>,
}

/// What a value must be.
#[derive(Debug)]
pub(super) enum Expected {
    /// Nothing is declared.
    Anything,
    Tensor(TensorRule),
    Struct(StructRule),
    /// Elements, and the memo of the sequence.
    Sequence(Arc<Expected>, usize),
}

/// A declared type, prepared: symbols are numbers, references followed.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(super) name: Arc<str>,
    pub(super) role: &'static str,
    pub(super) expected: Arc<Expected>,
    /// Whether the declaration is of an optional value: none at all is one.
    pub(crate) optional: bool,
    /// Which rule it is, for the memos of its sequences.
    pub(super) number: u64,
    /// What encoded values may refer to.
    pub(super) catalogues: Catalogues,
}

impl Rule {
    /// The name of the value.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Checks a value. A symbol that contradicts the table is `Ok(Some(..))`: the caller decides how bad that is.
    ///
    /// # Errors
    /// When anything else of the value contradicts the declaration.
    pub(crate) fn check(
        &self,
        value: &RuntimeValue,
        table: &mut Table,
    ) -> Result<Option<ConformError>, ConformError> {
        check::check(self, value, table)
    }
}

/// A type that no value is of: what it is, and the path of the part.
#[derive(Debug)]
pub(crate) enum Refused {
    Kind { name: String, kind: &'static str },
    Model(ModelError),
}

/// The symbols of a model, and how many rules and sequence types there are.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    numbers: HashMap<Arc<str>, usize>,
    rules: u64,
    memos: usize,
    /// Prepared entries of the model's catalogue: each once, however often it is referred to.
    entries: HashMap<u64, Arc<Expected>>,
}

impl Symbols {
    /// Prepares the declared type of one value.
    ///
    /// # Errors
    /// When the type has a part that no value is of: a map, an optional within, a sparse tensor or an opaque value.
    pub(crate) fn rule(
        &mut self,
        model: &Model,
        role: &'static str,
        name: Arc<str>,
        ty: &ValueType,
    ) -> Result<Rule, Refused> {
        let (ty, optional) = match ty {
            ValueType::Optional(held) => (&**held, true),
            ty => (ty, false),
        };
        let expected = self.expected(model, &name, ty)?;
        self.rules += 1;
        Ok(Rule {
            name,
            role,
            expected,
            optional,
            number: self.rules,
            catalogues: model.catalogues().map_err(Refused::Model)?.clone(),
        })
    }

    /// An empty table for one call after the other.
    pub(crate) fn table(&self) -> Table {
        Table {
            values: vec![None; self.numbers.len()],
            memos: HashMap::new(),
        }
    }

    fn memo(&mut self) -> usize {
        self.memos += 1;
        self.memos - 1
    }

    fn dim(&mut self, dim: &Dim) -> DimRule {
        match dim {
            Dim::Known(n) => DimRule::Exactly(*n),
            Dim::Unknown => DimRule::Any,
            Dim::Symbol(symbol) => {
                let next = self.numbers.len();
                DimRule::Symbol(*self.numbers.entry(symbol.clone()).or_insert(next))
            }
        }
    }

    fn expected(
        &mut self,
        model: &Model,
        path: &str,
        ty: &ValueType,
    ) -> Result<Arc<Expected>, Refused> {
        Ok(Arc::new(match ty {
            ValueType::Unset => Expected::Anything,
            ValueType::Tensor(tensor) => Expected::Tensor(self.tensor(tensor)),
            ValueType::Sequence(element) => {
                let element = self.expected(model, &format!("{path}[]"), element)?;
                Expected::Sequence(element, self.memo())
            }
            ValueType::Struct(declared) => return self.structure(model, path, declared),
            other => {
                return Err(Refused::Kind {
                    name: path.to_string(),
                    kind: other.kind(),
                });
            }
        }))
    }

    fn tensor(&mut self, declared: &TensorType) -> TensorRule {
        let shape = declared.shape.as_ref();
        TensorRule {
            dtype: declared.dtype,
            dims: shape.map(|shape| shape.iter().map(|dim| self.dim(dim)).collect()),
            declared: declared.clone(),
        }
    }

    fn structure(
        &mut self,
        model: &Model,
        path: &str,
        declared: &Arc<StructTypeProto>,
    ) -> Result<Arc<Expected>, Refused> {
        let Some(Kind::TypeRef(id)) = declared.kind else {
            return Ok(Arc::new(self.inline(model, path, declared, declared)?));
        };
        if let Some(made) = self.entries.get(&id) {
            return Ok(made.clone());
        }
        // References were checked when the model was made: they lead somewhere, and not in a circle.
        let entry = model.struct_types().resolve(declared).cloned();
        let entry = Arc::new(entry.unwrap_or_default());
        let made = Arc::new(self.inline(model, path, declared, &entry)?);
        self.entries.insert(id, made.clone());
        Ok(made)
    }

    fn inline(
        &mut self,
        model: &Model,
        path: &str,
        declared: &Arc<StructTypeProto>,
        resolved: &Arc<StructTypeProto>,
    ) -> Result<Expected, Refused> {
        let layout = match &resolved.kind {
            None => Layout::Category,
            Some(Kind::Structure(structure)) => {
                let (mut fields, mut places) = (Vec::new(), HashMap::new());
                for field in &structure.field {
                    // Constants are no part of the value.
                    let Some(Content::Type(ty)) = &field.content else {
                        continue;
                    };
                    let name: Arc<str> = Arc::from(field.name());
                    let ty = ValueType::from_proto(Some(ty));
                    let expected = self.expected(model, &format!("{path}.{name}"), &ty)?;
                    places.insert(name.clone(), fields.len());
                    fields.push((name, expected));
                }
                Layout::Fields(fields.into_boxed_slice(), places)
            }
            Some(_) => Layout::Packed,
        };
        let catalogues = model.catalogues().map_err(Refused::Model)?;
        let pages = match layout {
            Layout::Packed => None,
            _ => declared_pages(declared, catalogues).ok(),
        };
        let cache = pages.map(|pages| {
            let mut dims = |dims: [Dim; 4]| {
                let rules = std::array::from_fn(|axis| self.dim(&dims[axis]));
                (rules, dims)
            };
            let rule = PageRule {
                key: pages.key.map(&mut dims),
                value: pages.value.map(&mut dims),
            };
            (rule, self.memo())
        });
        Ok(Expected::Struct(StructRule {
            declared: declared.clone(),
            layout,
            cache,
        }))
    }
}
