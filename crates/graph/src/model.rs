//! A loaded, validated, immutable model.

use crate::bindings::{Binding, BindingUses, Bindings};
use crate::error::{BindingError, ModelError};
use crate::functions::FunctionTable;
use crate::load::{self, ExternalData, LoadOptions, shown};
use crate::path::Path;
use crate::struct_types::StructTypes;
use crate::types::{TensorType, ValueInfo};
use crate::uses::{self, InputUses};
use crate::validate::{self, Opsets, Rules};
use crate::values::{
    self, Catalogues, Elements, ModelValues, QuantizationParameterCatalogue, adopt, moved_bytes,
};
use refeed_proto::{
    Bytes, EncodedValueProto, GraphProto, ModelProto, PagedCacheProto, TensorProto,
};
use refeed_values::{Buffer, MAX_RANK, Provenance, RuntimeValue, Tensor, TensorError};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// A model. Cloning shares everything; nothing of it ever changes.
///
/// Loading validates the structure: names, order, scopes, functions, operator sets, attributes, sizes of tensors, and the
/// declarations of persistent bindings. Two things are left for later: which operators can be computed is the session's
/// question, and how often bound inputs are used is checked against the policy in force
/// ([`Model::check_binding_uses`]), because a session may allow more than the graph does.
///
/// No payload is read: tensors in other files are opened, mapped and compared in length.
#[derive(Debug, Clone)]
pub struct Model {
    inner: Arc<Inner>,
}

/// A handle of a model that does not keep it.
#[derive(Debug, Clone)]
pub struct WeakModel {
    inner: Weak<Inner>,
}

impl WeakModel {
    /// The model, while somebody else keeps it.
    pub fn upgrade(&self) -> Option<Model> {
        self.inner.upgrade().map(|inner| Model { inner })
    }

    /// Whether somebody keeps the model.
    pub fn is_kept(&self) -> bool {
        self.inner.strong_count() > 0
    }
}

#[derive(Debug)]
struct Inner {
    /// Always with a graph.
    proto: ModelProto,
    external: Arc<ExternalData>,
    inputs: Vec<ValueInfo>,
    outputs: Vec<ValueInfo>,
    bindings: Bindings,
    opsets: Opsets,
    warnings: Vec<String>,
    moved: Moved,
    struct_types: Arc<StructTypes>,
    /// Made when they are first asked for.
    catalogues: OnceLock<Catalogues>,
    values: OnceLock<ModelValues>,
}

/// Payloads that were not aligned for their type and were moved, once each.
#[derive(Debug, Default)]
struct Moved {
    count: AtomicUsize,
    /// By address and length of the payload. The payload is kept, so that its address stays its own.
    kept: Mutex<HashMap<(usize, usize), (Bytes, Buffer)>>,
}

impl Model {
    /// Loads and validates the model file at `path`.
    ///
    /// # Errors
    /// When the file cannot be read or the model is broken.
    pub fn load(
        path: impl AsRef<std::path::Path>,
        options: &LoadOptions,
    ) -> Result<Model, ModelError> {
        let loaded = load::read_model_file(path.as_ref(), options)?;
        Model::new(loaded.model, Arc::new(loaded.external))
    }

    /// Decodes and validates a model, whose payloads share the memory of `bytes`.
    ///
    /// # Errors
    /// When the bytes are no model or the model is broken; also when it has tensors in other files and
    /// [`LoadOptions::external_base`] names no folder for them.
    pub fn from_bytes(bytes: Bytes, options: &LoadOptions) -> Result<Model, ModelError> {
        let loaded = load::decode_model(bytes, options)?;
        Model::new(loaded.model, Arc::new(loaded.external))
    }

    /// Validates a model message.
    ///
    /// # Errors
    /// As [`Model::from_bytes`].
    pub fn from_proto(proto: ModelProto, options: &LoadOptions) -> Result<Model, ModelError> {
        let external = match &options.external_base {
            Some(folder) => ExternalData::in_folder(folder, options)?,
            None => ExternalData::none(),
        };
        Model::new(proto, Arc::new(external))
    }

    /// A changed message whose external tensors are this model's.
    ///
    /// # Errors
    /// When the changed model is broken.
    pub fn with_proto(&self, proto: ModelProto) -> Result<Model, ModelError> {
        Model::new(proto, Arc::clone(&self.inner.external))
    }

    /// A validated message whose external tensors are found by `external`.
    pub(crate) fn new(proto: ModelProto, external: Arc<ExternalData>) -> Result<Model, ModelError> {
        let validated = validate::validate(&proto, Some(&external), Rules::Session)?;
        let opsets = Opsets::of_model(&proto, Rules::Session)?;
        let graph = proto.graph.as_ref().ok_or(ModelError::NoGraph)?;
        let inputs: Vec<ValueInfo> = graph.input.iter().map(ValueInfo::from_proto).collect();
        let outputs: Vec<ValueInfo> = graph.output.iter().map(ValueInfo::from_proto).collect();
        for info in inputs.iter().chain(&outputs) {
            let rank = info.ty.tensor().and_then(TensorType::rank).unwrap_or(0);
            if rank > MAX_RANK {
                return Err(ModelError::Limit {
                    at: format!("graph value `{}`", shown(&info.name)),
                    what: "axes",
                    limit: MAX_RANK as u64,
                    got: rank as u64,
                });
            }
        }
        let inner = Inner {
            proto,
            external,
            inputs,
            outputs,
            bindings: validated.bindings,
            opsets,
            warnings: validated.warnings,
            moved: Moved::default(),
            struct_types: Arc::new(validated.struct_types),
            catalogues: OnceLock::new(),
            values: OnceLock::new(),
        };
        Ok(Model {
            inner: Arc::new(inner),
        })
    }

    /// The model message.
    pub fn proto(&self) -> &ModelProto {
        &self.inner.proto
    }

    /// The root graph.
    pub fn graph(&self) -> &GraphProto {
        // `Model::new`, the only constructor, refuses a message without a graph.
        self.inner
            .proto
            .graph
            .as_ref()
            .expect("a model has a graph")
    }

    /// All declared inputs of the root graph, bound ones and those with a default included.
    pub fn inputs(&self) -> &[ValueInfo] {
        &self.inner.inputs
    }

    /// All declared outputs of the root graph.
    pub fn outputs(&self) -> &[ValueInfo] {
        &self.inner.outputs
    }

    /// The persistent bindings, in the order of declaration.
    pub fn bindings(&self) -> &[Binding] {
        &self.inner.bindings.list
    }

    /// How often a bound input may be used, as the graph says.
    pub fn binding_uses(&self) -> BindingUses {
        self.inner.bindings.uses
    }

    /// Counts the uses of the bound inputs and holds them to a policy; to the graph's own when `policy` is `None`.
    /// The answer has one entry for each of [`Model::bindings`].
    ///
    /// # Errors
    /// [`BindingError::Uses`] for the first bound input that breaks the policy.
    pub fn check_binding_uses(
        &self,
        policy: Option<BindingUses>,
    ) -> Result<Vec<InputUses>, BindingError> {
        uses::check_binding_uses(
            self.graph(),
            self.bindings(),
            policy.unwrap_or(self.binding_uses()),
        )
    }

    /// The whole verdict of a verifier: what loading checked, and the uses of bound inputs under the graph's own policy.
    ///
    /// # Errors
    /// As [`Model::check_binding_uses`].
    pub fn verify(&self) -> Result<(), ModelError> {
        self.check_binding_uses(None)?;
        Ok(())
    }

    /// The imported version of an operator domain; `""` and `ai.onnx` are the same.
    pub fn opset(&self, domain: &str) -> Option<i64> {
        self.inner.opsets.get(domain)
    }

    /// All imported operator sets by domain, `ai.onnx` as `""`.
    pub fn opsets(&self) -> impl Iterator<Item = (&str, i64)> {
        self.inner.opsets.iter()
    }

    /// The model-local functions by name.
    pub fn functions(&self) -> FunctionTable<'_> {
        // Loading refused a list that cannot be indexed.
        FunctionTable::new(&self.inner.proto.functions).unwrap_or_default()
    }

    /// What is odd about the model but not wrong.
    pub fn warnings(&self) -> &[String] {
        &self.inner.warnings
    }

    /// Where the tensors in other files are.
    pub fn external(&self) -> &ExternalData {
        &self.inner.external
    }

    pub(crate) fn external_handle(&self) -> &Arc<ExternalData> {
        &self.inner.external
    }

    /// How many payloads were moved because they were not aligned for their type.
    pub fn moved_payloads(&self) -> usize {
        self.inner.moved.count.load(Ordering::Relaxed)
    }

    /// A handle that does not keep the model.
    pub fn downgrade(&self) -> WeakModel {
        WeakModel {
            inner: Arc::downgrade(&self.inner),
        }
    }

    /// Whether two handles are the same model.
    pub fn same(&self, other: &Model) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The struct types that the model declares.
    pub fn struct_types(&self) -> &Arc<StructTypes> {
        &self.inner.struct_types
    }

    /// What values of the model refer to: its struct types and its shared quantization parameters, read once.
    ///
    /// # Errors
    /// As [`QuantizationParameterCatalogue::build`].
    pub fn catalogues(&self) -> Result<&Catalogues, ModelError> {
        if let Some(made) = self.inner.catalogues.get() {
            return Ok(made);
        }
        let made = Catalogues {
            struct_types: Arc::clone(&self.inner.struct_types),
            parameters: Arc::new(QuantizationParameterCatalogue::build(self)?),
        };
        Ok(self.inner.catalogues.get_or_init(|| made))
    }

    /// The encoded initializers of the root graph as values, by name, read once. Payloads are the file's.
    ///
    /// # Errors
    /// When a payload or parameter cannot be had.
    pub fn encoded_initializers(&self) -> Result<&[(Arc<str>, RuntimeValue)], ModelError> {
        Ok(&self.values()?.encoded)
    }

    /// The paged-cache initializers of the root graph as values, by name, read once. Payloads are the file's.
    ///
    /// # Errors
    /// As [`Model::encoded_initializers`].
    pub fn paged_cache_initializers(&self) -> Result<&[(Arc<str>, RuntimeValue)], ModelError> {
        Ok(&self.values()?.paged_caches)
    }

    /// An encoded initializer of any graph of the model as a value that shares the file.
    ///
    /// # Errors
    /// When it breaks a rule, or its payload or a parameter cannot be had.
    pub fn encoded_initializer(
        &self,
        proto: &EncodedValueProto,
    ) -> Result<RuntimeValue, ModelError> {
        values::encoded_initializer(self, proto, &Path::root("encoded_initializer"))
    }

    /// A paged-cache initializer of any graph of the model as a value that shares the file.
    ///
    /// # Errors
    /// As [`Model::encoded_initializer`].
    pub fn paged_cache_initializer(
        &self,
        proto: &PagedCacheProto,
    ) -> Result<RuntimeValue, ModelError> {
        values::paged_cache_initializer(self, proto, &Path::root("paged_cache_initializer"))
    }

    fn values(&self) -> Result<&ModelValues, ModelError> {
        if let Some(made) = self.inner.values.get() {
            return Ok(made);
        }
        let made = ModelValues::of(self)?;
        Ok(self.inner.values.get_or_init(|| made))
    }

    /// A constant of the model (an initializer, a tensor attribute) as a tensor. Bytes of the file are shared when they
    /// are aligned for their type; otherwise they are moved once and counted. Elements in typed fields are converted
    /// each time.
    ///
    /// # Errors
    /// When the tensor is broken, is of type STRING, or memory cannot be had.
    pub fn initializer(&self, proto: &TensorProto) -> Result<Tensor, ModelError> {
        let elements = Elements::of(proto, &self.inner.external)?;
        let made = if elements.shared && !elements.is_aligned() {
            self.moved(elements.bytes)
                .and_then(|buffer| Tensor::dense(elements.dtype, &elements.shape, buffer))
        } else {
            adopt(elements, Provenance::Model)
        };
        made.map_err(|source| ModelError::Tensor {
            tensor: proto.name().to_string(),
            source,
        })
    }

    /// A constant of the model of any element type: as [`Model::initializer`], and tensors of STRING as texts.
    ///
    /// # Errors
    /// When the tensor is broken or memory cannot be had.
    pub fn constant(&self, proto: &TensorProto) -> Result<RuntimeValue, ModelError> {
        match values::is_of_strings(proto) {
            true => Ok(values::strings_from_proto(proto)?.into()),
            false => Ok(self.initializer(proto)?.into()),
        }
    }

    fn moved(&self, bytes: Bytes) -> Result<Buffer, TensorError> {
        let moved = &self.inner.moved;
        // A panic cannot leave the map half changed.
        let mut kept = moved.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (bytes.as_ptr().addr(), bytes.len());
        if let Some((_, buffer)) = kept.get(&key) {
            return Ok(buffer.clone());
        }
        let buffer = moved_bytes(&bytes, Provenance::Model)?;
        moved.count.fetch_add(1, Ordering::Relaxed);
        kept.insert(key, (bytes, buffer.clone()));
        Ok(buffer)
    }
}

#[cfg(test)]
mod tests;
