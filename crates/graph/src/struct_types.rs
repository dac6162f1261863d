//! The catalogue of struct types of a model.
//!
//! Entries are looked at once, each after the entries that it refers to: how deep it is, whether its values can be kept
//! between calls, how many bits they take. A declaration that refers to entries then asks for those three, and no chain or
//! tree of references is followed twice.

mod bit_size;
pub(crate) mod cache;

use crate::error::FieldError;
use crate::path::Path;
use crate::validate::types::{self, DEPTH, Found, Role};
use refeed_proto::struct_type_proto::Kind;
use refeed_proto::{ModelProto, StructTypeProto};
use refeed_values::encoded::StructType;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Declarations by their identity. It is of no model's memory: payloads of constants are shared, structure is copied.
#[derive(Debug, Default)]
pub struct StructTypes {
    entries: HashMap<u64, Entry>,
    /// Whether the model is not there, so that no reference can be resolved.
    deferred: bool,
}

#[derive(Debug)]
struct Entry {
    declared: Arc<StructTypeProto>,
    /// The layout of its values, made when it is first asked for.
    layout: OnceLock<Arc<StructType>>,
    /// Levels below the entry, references followed.
    height: usize,
    /// The first part whose values cannot be kept between calls.
    unfit: Option<FieldError>,
    /// Size of a value, or why it has no fixed one.
    bits: Result<u64, FieldError>,
}

impl StructTypes {
    /// Reads a model's catalogue.
    ///
    /// # Errors
    /// An entry without a unique nonzero identity, without a kind, or that is only a reference; a part without a name or
    /// size; a reference to nothing; types that contain themselves or are nested deeper than 64.
    pub fn new(model: &ModelProto) -> Result<StructTypes, FieldError> {
        let mut known: HashMap<u64, (usize, Found)> =
            HashMap::with_capacity(model.struct_types.len());
        for (index, declared) in model.struct_types.iter().enumerate() {
            let at = entry_path(model, index);
            let found = types::walk_struct(declared, Role::Entry, &at)?;
            if known.insert(declared.type_id(), (index, found)).is_some() {
                return Err(at.field("type_id").fault(
                    "an identity of its own",
                    format!("{} for the second time", declared.type_id()),
                ));
            }
        }
        let mut catalogue = StructTypes {
            entries: HashMap::with_capacity(known.len()),
            deferred: false,
        };
        for declared in &model.struct_types {
            catalogue.enter(model, &known, declared.type_id())?;
        }
        Ok(catalogue)
    }

    /// The catalogue of a part that is checked apart from its model: every reference is taken on trust.
    pub fn deferred() -> StructTypes {
        StructTypes {
            entries: HashMap::new(),
            deferred: true,
        }
    }

    /// The declaration with an identity.
    pub fn get(&self, id: u64) -> Option<&StructTypeProto> {
        self.entries.get(&id).map(|entry| &*entry.declared)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The declaration itself, or the one that it refers to; `None` when there is none.
    pub fn resolve<'t>(&'t self, declared: &'t StructTypeProto) -> Option<&'t StructTypeProto> {
        match &declared.kind {
            Some(Kind::TypeRef(id)) => self.get(*id),
            _ => Some(declared),
        }
    }

    /// An entry, and where the layout of its values is kept once it is made.
    pub(crate) fn layout_slot(
        &self,
        id: u64,
    ) -> Option<(&StructTypeProto, &OnceLock<Arc<StructType>>)> {
        let entry = self.entries.get(&id)?;
        Some((&entry.declared, &entry.layout))
    }

    /// Whether references are taken on trust.
    pub(crate) fn is_deferred(&self) -> bool {
        self.deferred
    }

    /// References lead to entries, and no deeper than types may be nested.
    pub(crate) fn check(&self, found: &Found) -> Result<(), FieldError> {
        for reference in &found.references {
            match self.entries.get(&reference.id) {
                Some(entry) if reference.depth + 1 + entry.height > DEPTH => {
                    return Err(FieldError {
                        at: reference.at.clone(),
                        expected: format!("types nested at most {DEPTH} deep"),
                        got: format!("{} levels", reference.depth + 1 + entry.height),
                    });
                }
                Some(_) => {}
                None if self.deferred => {}
                None => return Err(missing(&reference.at, reference.id)),
            }
        }
        Ok(())
    }

    /// The first part of a declaration whose values cannot be kept between calls, entries of the catalogue included.
    pub(crate) fn unfit(&self, found: &Found) -> Option<FieldError> {
        found.unfit.clone().or_else(|| {
            let mut entries = found
                .references
                .iter()
                .filter_map(|reference| self.entries.get(&reference.id));
            entries.find_map(|entry| entry.unfit.clone())
        })
    }

    /// Size in bits of a value of a struct type; `None` when it refers to an entry that is taken on trust.
    pub(crate) fn bit_size(
        &self,
        declared: &StructTypeProto,
        at: &Path<'_>,
    ) -> Result<Option<u64>, FieldError> {
        bit_size::of(declared, at, self)
    }

    /// Adds an entry after those that it refers to: depth first, with a stack in place of recursion.
    fn enter(
        &mut self,
        model: &ModelProto,
        known: &HashMap<u64, (usize, Found)>,
        id: u64,
    ) -> Result<(), FieldError> {
        // An entry, and the position of its next reference.
        let mut path: Vec<(u64, usize)> = vec![(id, 0)];
        let mut open: HashMap<u64, usize> = HashMap::from([(id, 0)]);
        if self.entries.contains_key(&id) {
            return Ok(());
        }
        while let Some(&mut (id, ref mut next)) = path.last_mut() {
            let Some((index, found)) = known.get(&id) else {
                break;
            };
            let at = entry_path(model, *index);
            if let Some(reference) = found.references.get(*next) {
                *next += 1;
                let inner = reference.id;
                if !known.contains_key(&inner) {
                    return Err(missing(&reference.at, inner));
                }
                if let Some(&from) = open.get(&inner) {
                    let mut cycle: Vec<String> =
                        path[from..].iter().map(|(id, _)| id.to_string()).collect();
                    cycle.push(inner.to_string());
                    if cycle.len() > 12 {
                        cycle.splice(6..cycle.len() - 5, ["...".to_string()]);
                    }
                    return Err(at.fault("a type that does not contain itself", cycle.join(" -> ")));
                }
                if !self.entries.contains_key(&inner) {
                    open.insert(inner, path.len());
                    path.push((inner, 0));
                }
                continue;
            }
            let declared = &model.struct_types[*index];
            let below = found.references.iter().map(|reference| {
                let entry = self.entries.get(&reference.id);
                reference.depth + 1 + entry.map_or(0, |entry| entry.height)
            });
            let height = below.fold(found.height, usize::max);
            if height > DEPTH {
                return Err(at.fault(
                    format!("types nested at most {DEPTH} deep"),
                    format!("{height} levels"),
                ));
            }
            let bits = self
                .bit_size(declared, &at)
                .map(|bits| bits.unwrap_or_default());
            let entry = Entry {
                declared: Arc::new(declared.clone()),
                layout: OnceLock::new(),
                height,
                unfit: self.unfit(found),
                bits,
            };
            self.entries.insert(id, entry);
            open.remove(&id);
            path.pop();
        }
        Ok(())
    }
}

fn entry_path(model: &ModelProto, index: usize) -> Path<'_> {
    Path::of(crate::path::Step::Named(
        "struct_types",
        index,
        model.struct_types[index].name(),
    ))
}

fn missing(at: &str, id: u64) -> FieldError {
    FieldError {
        at: at.to_string(),
        expected: "the identity of an entry of the model's struct_types".to_string(),
        got: id.to_string(),
    }
}

#[cfg(test)]
mod tests;
