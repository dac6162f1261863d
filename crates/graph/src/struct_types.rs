//! The catalogue of struct types of a model.

use crate::load::shown;
use refeed_proto::struct_type_proto::{Kind, structure::field::Content};
use refeed_proto::type_proto::Value;
use refeed_proto::{ModelProto, StructTypeProto, TypeProto};
use std::collections::{HashMap, HashSet};

/// Declarations by their identity.
#[derive(Debug, Default)]
pub struct StructTypes<'a> {
    by_id: HashMap<u64, &'a StructTypeProto>,
}

impl<'a> StructTypes<'a> {
    /// Reads a model's catalogue.
    ///
    /// # Errors
    /// A text: an entry without a unique nonzero identity, without a kind, or that is only a reference; a part without
    /// a name or size; a reference to nothing; types that contain themselves.
    pub fn new(model: &'a ModelProto) -> Result<StructTypes<'a>, String> {
        let mut by_id = HashMap::with_capacity(model.struct_types.len());
        for (index, entry) in model.struct_types.iter().enumerate() {
            let id = entry.type_id.unwrap_or(0);
            if id == 0 {
                return Err(format!("entry {index}: expected a nonzero type_id, got 0"));
            }
            if matches!(entry.kind, None | Some(Kind::TypeRef(_))) {
                return Err(format!(
                    "entry {index}: expected an array, a structure or a bit packing"
                ));
            }
            if by_id.insert(id, entry).is_some() {
                return Err(format!("type_id {id} is given more than once"));
            }
            check_parts(entry).map_err(|fault| format!("type {id}: {fault}"))?;
        }
        let catalogue = StructTypes { by_id };
        catalogue.check_acyclic(model)?;
        Ok(catalogue)
    }

    /// The declaration with an identity.
    ///
    /// # Errors
    /// A text, when there is none.
    pub fn get(&self, id: u64) -> Result<&'a StructTypeProto, String> {
        self.by_id
            .get(&id)
            .copied()
            .ok_or_else(|| format!("struct type {id} is not in the model's catalogue"))
    }

    /// The declaration itself, or the one that it refers to.
    ///
    /// # Errors
    /// As [`StructTypes::get`].
    pub fn resolve<'t>(&self, declared: &'t StructTypeProto) -> Result<&'t StructTypeProto, String>
    where
        'a: 't,
    {
        match &declared.kind {
            Some(Kind::TypeRef(id)) => self.get(*id),
            _ => Ok(declared),
        }
    }

    /// Depth-first over references, with a stack in place of recursion.
    fn check_acyclic(&self, model: &ModelProto) -> Result<(), String> {
        enum Step {
            Enter(u64),
            Leave(u64),
        }
        let mut done = HashSet::new();
        let mut open = HashSet::new();
        for entry in &model.struct_types {
            let mut stack = vec![Step::Enter(entry.type_id())];
            while let Some(step) = stack.pop() {
                let id = match step {
                    Step::Leave(id) => {
                        open.remove(&id);
                        done.insert(id);
                        continue;
                    }
                    Step::Enter(id) => id,
                };
                if done.contains(&id) {
                    continue;
                }
                if !open.insert(id) {
                    return Err(format!("struct type {id} contains itself"));
                }
                stack.push(Step::Leave(id));
                stack.extend(references(self.get(id)?).into_iter().map(Step::Enter));
            }
        }
        Ok(())
    }
}

fn check_parts(entry: &StructTypeProto) -> Result<(), String> {
    match &entry.kind {
        Some(Kind::Array(array)) => {
            if array.element_type.is_none() {
                return Err("the array has no element type".to_string());
            }
            if array.dimension() == 0 {
                return Err("the array's dimension: expected 1 or more, got 0".to_string());
            }
        }
        Some(Kind::BitPacking(packing)) => {
            if packing.component.is_empty() || packing.dimension() == 0 {
                return Err(
                    "a bit packing needs at least one component and a dimension".to_string()
                );
            }
            let mut names = HashSet::new();
            for component in &packing.component {
                if component.name().is_empty() || !names.insert(component.name()) {
                    return Err(format!(
                        "component `{}`: expected a unique name",
                        shown(component.name())
                    ));
                }
                if !(1..=64).contains(&component.bit_width()) {
                    return Err(format!(
                        "component `{}`: expected a width of 1 to 64 bits, got {}",
                        shown(component.name()),
                        component.bit_width()
                    ));
                }
            }
        }
        Some(Kind::Structure(structure)) => {
            if structure.field.is_empty() {
                return Err("the structure has no field".to_string());
            }
            let mut names = HashSet::new();
            for field in &structure.field {
                if field.name().is_empty() || !names.insert(field.name()) {
                    return Err(format!(
                        "field `{}`: expected a unique name",
                        shown(field.name())
                    ));
                }
                if field.content.is_none() {
                    return Err(format!(
                        "field `{}` has neither a type nor a constant",
                        shown(field.name())
                    ));
                }
            }
        }
        None | Some(Kind::TypeRef(_)) => {}
    }
    Ok(())
}

/// Identities that a declaration refers to.
fn references(declared: &StructTypeProto) -> Vec<u64> {
    let mut found = Vec::new();
    let mut types: Vec<&TypeProto> = Vec::new();
    let mut structs = vec![declared];
    loop {
        if let Some(declared) = structs.pop() {
            match &declared.kind {
                Some(Kind::TypeRef(id)) => found.push(*id),
                Some(Kind::Array(array)) => types.extend(array.element_type.as_deref()),
                Some(Kind::Structure(structure)) => {
                    types.extend(
                        structure
                            .field
                            .iter()
                            .filter_map(|field| match &field.content {
                                Some(Content::Type(ty)) => Some(ty),
                                _ => None,
                            }),
                    );
                }
                Some(Kind::BitPacking(_)) | None => {}
            }
        } else if let Some(ty) = types.pop() {
            match &ty.value {
                Some(Value::SequenceType(sequence)) => types.extend(sequence.elem_type.as_deref()),
                Some(Value::OptionalType(optional)) => types.extend(optional.elem_type.as_deref()),
                Some(Value::MapType(map)) => types.extend(map.value_type.as_deref()),
                Some(Value::StructType(declared)) => structs.push(declared),
                _ => {}
            }
        } else {
            return found;
        }
    }
}
