//! Stateful ONNX inference on CPU: outputs that come back as the next inputs, kept without a copy.
//!
//! An ONNX file that is run step by step (a language model with its KV caches, a streaming recogniser, a filter) has
//! outputs that are the next call's inputs. Here the graph itself says which: a persistent binding names an input and
//! the output that feeds it, and [`PersistentValueState`] keeps the value between calls. Caches are appended to in
//! place; an output that somebody still holds never changes and never costs a copy.
//!
//! # A feedback loop
//!
//! ```
//! use refeed::proto::{
//!     GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto, TypeProto, ValueInfoProto,
//!     tensor_shape_proto::{Dimension, dimension::Value::DimValue},
//!     type_proto::{self, Value::TensorType},
//! };
//! use refeed::{
//!     BindRequest, LoadOptions, Model, PersistentValueState, RuntimeContext, RuntimeSessionOptions, Tensor, bind,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // present = Add(delta, past), all FLOAT[2]; usually this comes from `Model::load("model.onnx", ...)`.
//! let value = |name: &str| ValueInfoProto {
//!     name: Some(name.into()),
//!     r#type: Some(TypeProto {
//!         value: Some(TensorType(type_proto::Tensor {
//!             elem_type: Some(1),
//!             shape: Some(TensorShapeProto {
//!                 dim: vec![Dimension { value: Some(DimValue(2)), ..Default::default() }],
//!             }),
//!         })),
//!         ..Default::default()
//!     }),
//!     ..Default::default()
//! };
//! let graph = GraphProto {
//!     name: Some("accumulate".into()),
//!     node: vec![NodeProto {
//!         op_type: Some("Add".into()),
//!         input: vec!["delta".into(), "past".into()],
//!         output: vec!["present".into()],
//!         ..Default::default()
//!     }],
//!     input: vec![value("delta"), value("past")],
//!     output: vec![value("present")],
//!     ..Default::default()
//! };
//! let opset = OperatorSetIdProto { domain: Some(String::new()), version: Some(18) };
//! let proto = ModelProto {
//!     ir_version: Some(10),
//!     opset_import: vec![opset],
//!     graph: Some(graph),
//!     ..Default::default()
//! };
//! let model = Model::from_proto(proto, &LoadOptions::default())?;
//!
//! // Say which output feeds which input, and keep the value.
//! let (model, report) = bind(&model, &BindRequest::pairs([("past", "present")]))?;
//! println!("{report}");
//! let initial = Tensor::from_slice(&[2], &[0f32, 0.0])?;
//! let state =
//!     PersistentValueState::new(model, [("past", initial.clone())], RuntimeSessionOptions::default())?;
//!
//! let context = RuntimeContext::default();
//! let delta = Tensor::from_slice(&[2], &[1f32, 1.0])?;
//! let first = state.run(&context, [("delta", delta.clone())])?;
//! let second = state.run(&context, [("delta", delta)])?;
//! assert_eq!(second["present"].view::<f32>()?.to_vec(), [2.0, 2.0]);
//! // The first result is still what it was.
//! assert_eq!(first["present"].view::<f32>()?.to_vec(), [1.0, 1.0]);
//!
//! state.reset([("past", initial)])?;
//! state.close()?;
//! # Ok(()) }
//! ```
//!
//! # Bindings by hand
//!
//! A binding is two names in the graph's message; [`bind()`] writes no more than that.
//!
//! ```
//! // Rule 3.1.9; S084.
//! use refeed::proto::PersistentBindingProto;
//! use refeed::{
//!     LoadOptions, Model, PersistentValueState, RuntimeContext, RuntimeSessionOptions, RuntimeValue, Tensor, parser,
//! };
//! use std::collections::HashMap;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = r#"<ir_version: 10, opset_import: ["" : 18]>
//!     accumulate (float[2] delta, float[2] past) => (float[2] present) { present = Add(delta, past) }"#;
//! let mut proto = parser::parse_model(text)?;
//! let bindings = &mut proto.graph.get_or_insert_default().persistent_bindings;
//! bindings.push(PersistentBindingProto::default());
//! bindings[0].input_name = Some("past".into());
//! bindings[0].output_name = Some("present".into());
//! let model = Model::from_proto(proto, &LoadOptions::default())?;
//!
//! let floats = |numbers| Tensor::from_slice(&[2], numbers).map(RuntimeValue::from);
//! let initial = HashMap::from([("past", floats(&[0f32, 0.0])?)]);
//! let state = PersistentValueState::new(model, initial, RuntimeSessionOptions::default())?;
//! let context = RuntimeContext::default();
//! for step in [1f32, 2.0] {
//!     let outputs = state.run(&context, HashMap::from([("delta", floats(&[1.0, 1.0])?)]))?;
//!     assert_eq!(outputs["present"].view::<f32>()?.to_vec(), [step, step]);
//! }
//! state.reset([("past", floats(&[5.0, 6.0])?)])?;
//! let outputs = state.run(&context, [("delta", floats(&[1.0, 1.0])?)])?;
//! assert_eq!(outputs["present"].view::<f32>()?.to_vec(), [6.0, 7.0]);
//! state.close()?;
//! assert!(state.run(&context, [("delta", floats(&[1.0, 1.0])?)]).is_err());
//! # Ok(()) }
//! ```
//!
//! # Generating text
//!
//! [`generate`] continues prompts, [`Generator`] keeps tokens and state over turns. Both run one loop.
//!
//! ```
//! use refeed::{GenerationOptions, Generator, GeneratorSettings, LoadOptions, Model, parser::parse_model};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The logits favour the number after the last token; usually this is a decoder with bound caches.
//! let text = r#"<ir_version: 10, opset_import: ["" : 18]>
//!     next (int64[b, n] input_ids) => (float[b, n, 16] logits)
//!     <int64 one = {1}, int64[1] depth = {16}, float[2] values = {0, 1}>
//!     { following = Add(input_ids, one)  logits = OneHot(following, depth, values) }"#;
//! let model = Model::from_proto(parse_model(text)?, &LoadOptions::default())?;
//! let mut generator = Generator::new(model, GeneratorSettings::default())?;
//! generator.append(&[vec![3]])?;
//! let options = GenerationOptions { max_new_tokens: 3, ..GenerationOptions::default() };
//! assert_eq!(generator.generate(&options)?[0].tokens, [4, 5, 6]);
//! generator.append(&[vec![9]])?;
//! assert_eq!(generator.generate(&options)?[0].tokens, [10, 11, 12]);
//! generator.rewind(1)?;
//! assert_eq!(generator.tokens(), [[3, 4, 5, 6]]);
//! # Ok(()) }
//! ```
//!
//! The call on a context that is there already, with names of the model's own; the prompt is part of the result.
//!
//! ```
//! // Rule 4.6.21; S053, S054.
//! use refeed::{
//!     GenerationOptions, LoadOptions, Model, RuntimeContext, RuntimeSessionOptions, Tensor, generate,
//!     parser::parse_model,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = r#"<ir_version: 10, opset_import: ["" : 18]>
//!     next (int64[b, n] words, int64[b, n] seen, int64[b, n] places) => (float[b, n, 16] scores)
//!     <int64[1] depth = {16}, float[2] values = {0, 1}>
//!     { sum = Add(words, seen)  zero = Sub(places, places)  following = Add(sum, zero)
//!       scores = OneHot(following, depth, values) }"#;
//! let model = Model::from_proto(parse_model(text)?, &LoadOptions::default())?;
//! let options = GenerationOptions {
//!     max_new_tokens: 3,
//!     input_ids_name: "words".into(),
//!     logits_name: "scores".into(),
//!     attention_mask_name: "seen".into(),
//!     position_ids_name: "places".into(),
//!     ..GenerationOptions::default()
//! };
//! let context = RuntimeContext::default();
//! let prompt = Tensor::from_slice(&[2, 1], &[3i64, 7])?;
//! let made = generate(model, &context, [("words", prompt)], &options, RuntimeSessionOptions::default())?;
//! assert_eq!(made.shape(), [2, 4]);
//! assert_eq!(made.view::<i64>()?.to_vec(), [3, 4, 5, 6, 7, 8, 9, 10]);
//! # Ok(()) }
//! ```
//!
//! # Values move in
//!
//! Initial values and feeds are taken by value: who moves them in hands over their memory, and who gives a clone keeps a
//! handle to the same memory. Nothing is copied either way. [`RuntimeValue::retain_storage`] and
//! [`RuntimeValue::borrow_view`] say so in words; [`RuntimeValue::deep_copy`] is for whoever wants a copy.
//!
//! ```
//! // Rule 7.1.4; S085, S086.
//! use refeed::{
//!     BindRequest, LoadOptions, Model, PersistentValueState, RuntimeContext, RuntimeSessionOptions, RuntimeValue,
//!     Tensor, bind, parser, values::Allocator,
//! };
//! use std::collections::HashMap;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = r#"<ir_version: 10, opset_import: ["" : 18]>
//!     accumulate (float[2] delta, float[2] past) => (float[2] present) { present = Add(delta, past) }"#;
//! let model = Model::from_proto(parser::parse_model(text)?, &LoadOptions::default())?;
//! let (model, _) = bind(&model, &BindRequest::pairs([("past", "present")]))?;
//! let address = |value: &RuntimeValue| value.tensor().map(Tensor::as_ptr);
//!
//! // Moved in: the state has the tensor's own memory.
//! let past = RuntimeValue::from(Tensor::from_slice(&[2], &[1f32, 2.0])?);
//! let at = address(&past);
//! let initial = HashMap::from([("past", past)]);
//! let state = PersistentValueState::new(model.clone(), initial, RuntimeSessionOptions::default())?;
//! assert_eq!(address(&state.values()?[0].1), at);
//!
//! // Retained once, shared by two states, read all the while.
//! let shared = RuntimeValue::from(Tensor::from_slice(&[2], &[5f32, 6.0])?).retain_storage()?;
//! let states = [shared.borrow_view(), shared.borrow_view()].map(|past| {
//!     PersistentValueState::new(model.clone(), [("past", past)], RuntimeSessionOptions::default())
//! });
//! let [first, second] = states;
//! let (first, second) = (first?, second?);
//! let delta = Tensor::from_slice(&[2], &[1f32, 1.0])?;
//! first.run(&RuntimeContext::default(), [("delta", delta)])?;
//! assert_eq!(address(&second.values()?[0].1), address(&shared));
//! assert_ne!(address(&first.values()?[0].1), address(&shared));
//!
//! // A copy shares nothing.
//! let copy = shared.deep_copy(&Allocator::default())?;
//! assert_ne!(address(&copy), address(&shared));
//! state.reset([("past", copy)])?;
//! # Ok(()) }
//! ```
//!
//! # What is `Send` and `Sync`
//!
//! | type | `Send` | `Sync` | meaning |
//! |---|---|---|---|
//! | [`Model`], [`Tensor`], [`RuntimeValue`] | yes | yes | immutable handles; clones share the payload |
//! | [`RuntimeSession`] | yes | yes | threads may run one session at the same time |
//! | [`PersistentValueState`] | yes | yes | one operation at a time; a second one fails at once with `Busy` |
//! | [`RuntimeContext`] | yes | yes | clones share events, values, kernels and allocators |
//! | [`Generator`] | yes | yes | one owner calls it; forks go to other threads |
//! | [`TaskCompletion`], [`Checkpoint`] | yes | yes | any thread may cancel a run; any state of the model goes back |

#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// Models written as text.
pub use refeed_graph::parser;
/// The ONNX wire format.
pub use refeed_proto as proto;
/// Attention over caches in pages: the kernel of `ai.rt::PagedAttention`, which its users register.
pub use refeed_runtime::paged_attention;
/// Element types, tensors, views, append blocks.
pub use refeed_values as values;

/// Messages to values and back, and what values of a model refer to.
pub use refeed_graph::values as convert;
pub use refeed_graph::{
    BindReport, BindRequest, Binding, BindingUses, LoadOptions, Model, ModelError, Publish, bind,
};
pub use refeed_runtime::{
    AppendReuse, AttentionForm, BatchAxes, BindingReport, Captured, Checkpoint, CompletionError,
    ContextError, EventKind, Explanation, FinishReason, Generated, GeneratedSequence,
    GeneratedToken, GenerationError, GenerationOptions, Generator, GeneratorSettings,
    KernelContext, MapKeys, MapValue, MapValues, NodeTable, NodeTiming, OperatorUse, OpsetId,
    Outcome, Outputs, PersistentValueState, Poll, Prepared, RegisterError, RunControl,
    RuntimeContext, RuntimeContextOptions, RuntimeEvent, RuntimeEventAction, RuntimeSession,
    RuntimeSessionOptions, SessionError, StateError, StateFileError, StorageReport, TaskCompletion,
    TaskStatus, ValueKind, ValueStore, clear_kernels, empty_caches, generate, generate_until,
    kernel, register_kernel, survey, unregister_kernel,
};
pub use refeed_values::{
    DType, EncodedValue, RawBufferAllocator, RuntimeSequence, RuntimeValue, StringTensor,
    StructValue, Tensor,
};

#[cfg(test)]
mod tests {
    use super::*;

    fn threads_may_share<T: Send + Sync>() {}

    #[test]
    fn the_table_of_send_and_sync_holds() {
        threads_may_share::<Model>();
        threads_may_share::<Tensor>();
        threads_may_share::<RuntimeValue>();
        threads_may_share::<RuntimeSession>();
        threads_may_share::<PersistentValueState>();
        threads_may_share::<RuntimeContext>();
        threads_may_share::<TaskCompletion>();
        threads_may_share::<Checkpoint>();
        threads_may_share::<Generator>();
    }
}
