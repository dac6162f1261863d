//! The seam between the plan and the operators: what a kernel is, how it is built, and what it sees of a call.

use crate::append::{AppendSite, Appends, Span};
use crate::events::{Meter, RuntimeEventAction, StorageReport};
use refeed_graph::Model;
use refeed_graph::attributes::{AttributeError, Attributes};
use refeed_graph::types::{TensorType, ValueType};
use refeed_kernels::Compute;
use refeed_kernels::quantize::QuantizeError;
use refeed_proto::{NodeProto, TensorProto};
use refeed_values::append::{AppendError, AppendReservation};
use refeed_values::encoded::EncodedError;
use refeed_values::paged_cache::PageFault;
use refeed_values::{
    DType, Element, Pool, RuntimeValue, Tensor, TensorError, TensorMut, ValueError, View,
};
use smallvec::SmallVec;
use std::fmt;
use thiserror::Error;

mod lent;

pub use crate::registry::{KernelFactory, RegisterError};
pub use lent::LentInvocation;

/// Place of a value in a frame.
pub(crate) type Slot = u32;

/// A node's computation, built once when the session is built, with its attributes parsed.
pub trait Kernel: Send + Sync {
    /// Reads the inputs, writes every output that the node wants.
    ///
    /// # Errors
    /// When the values at hand cannot be computed on. The executor adds the node's name; nothing is published.
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError>;

    /// Which kinds of values it reads. The executor refuses others before the kernel runs.
    fn reads(&self) -> Kinds {
        Kinds::Tensors
    }

    /// The axis along which it appends to a retained input; negative counts from the last. `None` when it does not.
    fn append_axis(&self) -> Option<i64> {
        None
    }

    /// Whether it may leave an output that is wanted without a value: an empty optional value.
    fn may_leave_empty(&self) -> bool {
        false
    }
}

/// A condition.
///
/// # Errors
/// When it is not BOOL or has not exactly one element.
pub(crate) fn one_flag(condition: &Tensor) -> Result<bool, OpError> {
    let flags = condition.view::<u8>()?;
    let mut elements = flags.iter();
    match (elements.next(), elements.next()) {
        (Some(flag), None) => Ok(flag != 0),
        _ => Err(OpError::Shape(format!(
            "condition must have one element, got shape {:?}",
            condition.shape()
        ))),
    }
}

/// Kinds of values that a kernel reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kinds {
    /// Tensors only.
    Tensors,
    /// Values of every kind, by [`Invocation::value`]; the kernel refuses what it does not compute.
    Any,
}

/// Why a node could not be built or computed. Short, about values only: the executor says where.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpError {
    /// A required input is absent.
    #[error("input {index} is required")]
    MissingInput {
        /// Input position.
        index: usize,
    },
    /// An input has an element type that the kernel does not compute.
    #[error("input {index}: expected elements of {expected}, got {got}")]
    DType {
        /// Input position.
        index: usize,
        /// What is accepted.
        expected: String,
        /// What came.
        got: DType,
    },
    /// An input is of another kind than the kernel reads.
    #[error("input {index}: expected {expected}, got {got}")]
    Kind {
        /// Input position.
        index: usize,
        /// What is accepted.
        expected: &'static str,
        /// What came.
        got: &'static str,
    },
    /// Shapes do not fit the operator or each other.
    #[error("{0}")]
    Shape(String),
    /// A value (an index, a length, a step) is out of its range.
    #[error("{what}: expected {expected}, got {got}")]
    Value {
        /// Which value.
        what: &'static str,
        /// The accepted range.
        expected: String,
        /// What came.
        got: String,
    },
    /// A part of the operator that refeed does not compute.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// An attribute cannot be used.
    #[error(transparent)]
    Attribute(#[from] AttributeError),
    /// Memory or layout.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A struct or sequence cannot be made.
    #[error(transparent)]
    Compound(#[from] ValueError),
    /// An append that broke its contract.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// A numeric kernel refused its operands.
    #[error(transparent)]
    Kernel(#[from] refeed_kernels::KernelError),
    /// A paged cache has a page that breaks a rule or cannot be converted.
    #[error(transparent)]
    Page(#[from] PageFault),
    /// Keys or values that cannot be decoded or encoded.
    #[error(transparent)]
    Quantize(QuantizeError),
    /// A tensor of the model is broken.
    #[error(transparent)]
    Model(Box<refeed_graph::ModelError>),
    /// A node of a subgraph failed.
    #[error(transparent)]
    Nested(#[from] Box<crate::RunError>),
    /// A node of the body of a loop failed.
    #[error("iteration {number}: {source}")]
    Iteration {
        /// Which iteration, from 0.
        number: u64,
        /// The node, and why.
        source: Box<crate::RunError>,
    },
    /// A kernel of the caller's own computed something else than the model declares.
    #[error("output {index}: expected {expected}, got {got}")]
    Output {
        /// Output position.
        index: usize,
        /// What is declared.
        expected: String,
        /// What came.
        got: String,
    },
    /// A kernel ended without an output that the graph reads.
    #[error("output {index}: expected a value, got none")]
    NoOutput {
        /// Output position.
        index: usize,
    },
    /// A kernel asked twice for the rows of one append.
    #[error(
        "append lease has already been consumed: a kernel reserves the rows of a value once a call"
    )]
    Reserved,
    /// A kernel of the caller's own failed with an error of its own.
    #[error("{0}")]
    Custom(Box<dyn std::error::Error + Send + Sync>),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The run's completion was cancelled before this node ended.
    #[error("cancelled")]
    Cancelled,
    /// Planted by a test.
    #[cfg(feature = "testing")]
    #[error("injected failure")]
    Injected,
}

/// Memory that cannot be had is told as such wherever it was asked for.
impl From<QuantizeError> for OpError {
    fn from(error: QuantizeError) -> OpError {
        match error {
            QuantizeError::Tensor(source) => OpError::Tensor(source),
            QuantizeError::Encoded(EncodedError::Tensor(source)) => OpError::Tensor(source),
            other => OpError::Quantize(other),
        }
    }
}

impl OpError {
    /// The error of a node of a nested graph, when that is what it is.
    pub fn nested(&self) -> Option<&crate::RunError> {
        match self {
            OpError::Nested(source) | OpError::Iteration { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The type of a tensor of which nothing is known.
static UNKNOWN: TensorType = TensorType {
    dtype: None,
    shape: None,
};

/// What a kernel is built from.
pub struct Build<'a> {
    /// The node's attributes; each must be read, or building fails.
    pub attributes: &'a Attributes<'a>,
    /// Version of the node's domain that the model imports.
    pub opset: i64,
    /// The node. Inside of a function it is the body's node, with the call's attributes in place.
    pub node: &'a NodeProto,
    pub(crate) model: &'a Model,
    pub(crate) inputs: &'a [Option<ValueType>],
    pub(crate) constants: &'a [Option<Tensor>],
    pub(crate) outputs: &'a [bool],
}

impl<'a> Build<'a> {
    /// Number of input positions, absent ones included.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Whether an input is there and named.
    pub fn has(&self, index: usize) -> bool {
        matches!(self.inputs.get(index), Some(Some(_)))
    }

    /// The type of an input as far as it is known; `None` when the input is absent or no tensor.
    pub fn input(&self, index: usize) -> Option<&'a TensorType> {
        match self.inputs.get(index)?.as_ref()? {
            ValueType::Unset => Some(&UNKNOWN),
            ty => ty.tensor(),
        }
    }

    /// The type of an input of any kind; `None` when the input is absent.
    pub fn value_type(&self, index: usize) -> Option<&'a ValueType> {
        self.inputs.get(index)?.as_ref()
    }

    /// The value of an input that is known before the first run.
    pub fn constant(&self, index: usize) -> Option<&'a Tensor> {
        self.constants.get(index)?.as_ref()
    }

    /// A tensor of the model, such as the value of an attribute; its bytes stay shared with the file.
    ///
    /// # Errors
    /// When its payload does not fit its type and dimensions.
    pub fn tensor(&self, proto: &TensorProto) -> Result<Tensor, OpError> {
        self.model
            .initializer(proto)
            .map_err(|error| OpError::Model(Box::new(error)))
    }

    /// A tensor of the model of any element type; those of STRING as texts.
    ///
    /// # Errors
    /// As [`Build::tensor`].
    pub fn constant_value(&self, proto: &TensorProto) -> Result<RuntimeValue, OpError> {
        self.model
            .constant(proto)
            .map_err(|error| OpError::Model(Box::new(error)))
    }

    /// Number of output positions of the node.
    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }

    /// Whether the node names this output.
    pub fn wants(&self, index: usize) -> bool {
        self.outputs.get(index).copied().unwrap_or(false)
    }
}

/// Builds the kernel of one node.
pub type BuildFn = fn(&mut Build<'_>) -> Result<Box<dyn Kernel>, OpError>;

/// A registered kernel: which operator it computes, on which element types, and how it is built.
pub struct KernelEntry {
    /// Operator domain; `""` is ai.onnx.
    pub domain: &'static str,
    /// Operator name.
    pub op_type: &'static str,
    /// For some input positions, the element types that the kernel computes; positions that are not listed accept
    /// what the schema accepts.
    pub types: &'static [(usize, &'static [DType])],
    /// Builds it.
    pub build: BuildFn,
}

impl fmt::Debug for KernelEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KernelEntry({}:{})", self.domain, self.op_type)
    }
}

/// What a kernel sees of one execution of its node.
pub struct Invocation<'a> {
    pub(crate) slots: &'a [Option<RuntimeValue>],
    pub(crate) inputs: &'a [Option<Slot>],
    pub(crate) wanted: &'a [Option<Slot>],
    pub(crate) outputs: &'a mut SmallVec<[Option<RuntimeValue>; 4]>,
    pub(crate) pool: &'a mut Pool,
    pub(crate) compute: &'a Compute<'a>,
    pub(crate) sites: &'a [AppendSite],
    pub(crate) appends: &'a mut Appends,
    pub(crate) meter: &'a mut Meter,
    pub(crate) interrupt: &'a crate::interrupt::Interrupt,
}

impl<'a> Invocation<'a> {
    /// An input of any kind, or `None` when it is absent. The reference outlives borrows of the invocation.
    pub fn value(&self, index: usize) -> Option<&'a RuntimeValue> {
        let slot = (*self.inputs.get(index)?)?;
        self.slots.get(slot as usize)?.as_ref()
    }

    /// An input of any kind that must be there.
    ///
    /// # Errors
    /// When it is absent.
    pub fn require_value(&self, index: usize) -> Result<&'a RuntimeValue, OpError> {
        self.value(index).ok_or(OpError::MissingInput { index })
    }

    /// An input that is a tensor, or `None` when it is absent. The reference outlives borrows of the invocation.
    ///
    /// Kernels that read every kind ([`Kernel::reads`]) look with [`Invocation::value`]: here, values of other kinds
    /// count as absent.
    pub fn input(&self, index: usize) -> Option<&'a Tensor> {
        self.value(index)?.tensor()
    }

    /// An input that must be there and a tensor.
    ///
    /// # Errors
    /// When it is absent or of another kind.
    pub fn require(&self, index: usize) -> Result<&'a Tensor, OpError> {
        match self.require_value(index)? {
            RuntimeValue::Tensor(tensor) => Ok(tensor),
            other => Err(OpError::Kind {
                index,
                expected: "a tensor",
                got: other.kind(),
            }),
        }
    }

    /// A required input as a typed view.
    ///
    /// # Errors
    /// When it is absent or of another element type.
    pub fn view<T: Element>(&self, index: usize) -> Result<View<'a, T>, OpError> {
        let tensor = self.require(index)?;
        if !T::reads(tensor.dtype()) {
            return Err(OpError::DType {
                index,
                expected: T::DTYPE.to_string(),
                got: tensor.dtype(),
            });
        }
        Ok(tensor.view::<T>()?)
    }

    /// A small integer input (axes, shapes, starts) as numbers; INT64 and INT32 are accepted.
    ///
    /// # Errors
    /// When it is absent or of another element type.
    pub fn ints(&self, index: usize) -> Result<SmallVec<[i64; 8]>, OpError> {
        let tensor = self.require(index)?;
        match tensor.dtype() {
            DType::Int64 => Ok(tensor.view::<i64>()?.iter().collect()),
            DType::Int32 => Ok(tensor.view::<i32>()?.iter().map(i64::from).collect()),
            got => Err(OpError::DType {
                index,
                expected: "INT64 or INT32".to_string(),
                got,
            }),
        }
    }

    /// Number of input positions, absent ones included.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Number of output positions.
    pub fn output_count(&self) -> usize {
        self.wanted.len()
    }

    /// Whether anybody reads this output.
    pub fn wants(&self, index: usize) -> bool {
        matches!(self.wanted.get(index), Some(Some(_)))
    }

    /// Writable memory of the session. Bytes are arbitrary: write all of them.
    ///
    /// # Errors
    /// When the extent overflows or the budget is spent.
    pub fn allocate(&mut self, dtype: DType, shape: &[usize]) -> Result<TensorMut, OpError> {
        Ok(self.pool.tensor(dtype, shape)?)
    }

    /// Gives scratch memory back before the call ends.
    pub fn recycle(&mut self, scratch: Tensor) {
        self.pool.give(scratch);
    }

    /// The tensor itself when dense, else a dense copy in session memory.
    ///
    /// # Errors
    /// When memory cannot be had.
    pub fn dense(&mut self, tensor: &Tensor) -> Result<Tensor, OpError> {
        if tensor.is_contiguous() {
            return Ok(tensor.clone());
        }
        let mut out = self.pool.tensor(tensor.dtype(), tensor.shape())?;
        tensor.copy_into(&mut out)?;
        Ok(out.freeze())
    }

    /// Sets an output. Views of inputs are allowed: the executor keeps graph outputs apart from feeds.
    pub fn set(&mut self, index: usize, value: impl Into<RuntimeValue>) {
        if self.wants(index) {
            self.outputs[index] = Some(value.into());
        }
    }

    /// Takes back a tensor that this call set as an output.
    pub fn take_output(&mut self, index: usize) -> Option<Tensor> {
        match self.outputs.get_mut(index)?.take()? {
            RuntimeValue::Tensor(tensor) => Some(tensor),
            other => {
                self.outputs[index] = Some(other);
                None
            }
        }
    }

    /// Instruction set and thread pool. Once the run is interrupted or cancelled, tasks handed to it no longer begin, and
    /// whatever the kernel computes of that is thrown away.
    pub fn compute(&self) -> &'a Compute<'a> {
        self.compute
    }

    /// Asks for the rows behind a retained input, when output `output` is what the graph feeds back into input
    /// `input`. `shape` is the whole result; only its extent along `axis` may differ from the input's, by growing.
    ///
    /// `None` means: no such binding at these positions, or the append is declined (the reason goes to
    /// `explain()`); compute a dense result instead and [`Invocation::report`] it.
    ///
    /// # Errors
    /// When the shape contradicts the input or memory cannot be had. One attempt a binding and call.
    pub fn reserve(
        &mut self,
        input: usize,
        output: usize,
        shape: &[usize],
        axis: usize,
    ) -> Result<Option<AppendReservation>, OpError> {
        let Some(site) = self
            .sites
            .iter()
            .find(|site| site.input == input && site.output == output)
        else {
            return Ok(None);
        };
        let memory = self.pool.output_allocator();
        self.appends
            .reserve(site.binding, shape, axis, memory, self.meter)
    }

    /// Ends the writing of reserved rows, makes the whole result output `output`, and returns it.
    ///
    /// # Errors
    /// When no binding has this output.
    pub fn commit(
        &mut self,
        output: usize,
        reservation: AppendReservation,
    ) -> Result<Tensor, OpError> {
        let site = self.sites.iter().find(|site| site.output == output);
        let binding = site.map(|site| site.binding);
        let binding = binding.ok_or_else(|| unbound(output))?;
        let tensor = self.appends.commit(binding, reservation)?;
        self.set(output, tensor.clone());
        Ok(tensor)
    }

    /// As [`Invocation::commit`], for a kernel that counts the bytes it wrote: the reserved rows of all outer slices.
    ///
    /// # Errors
    /// When it is another number than was reserved, or no binding has this output. The rows are given back.
    pub fn commit_bytes(
        &mut self,
        output: usize,
        reservation: AppendReservation,
        written: usize,
    ) -> Result<Tensor, OpError> {
        check_written(&reservation, written)?;
        self.commit(output, reservation)
    }

    /// Whether this output is fed back into an input of this very node: then its dense computation is a fallback that
    /// must be reported.
    pub fn is_bound(&self, output: usize) -> bool {
        self.sites.iter().any(|site| site.output == output)
    }

    /// The input of this node into which the graph feeds output `output` back.
    pub fn bound_input(&self, output: usize) -> Option<usize> {
        self.sites
            .iter()
            .find(|site| site.output == output)
            .map(|site| site.input)
    }

    /// The buffer that the value bound to output `output` had before its current one, and the rows that were written
    /// since; each call may take it once, and write to it if nobody else sees it.
    pub(crate) fn take_older(&mut self, output: usize) -> Option<(Tensor, Span)> {
        let site = self.sites.iter().find(|site| site.output == output)?;
        self.appends.take_older(site.binding)
    }

    /// Sets output `output`, which is the bound value with the rows of `span` written over.
    pub(crate) fn set_written(
        &mut self,
        output: usize,
        tensor: Tensor,
        span: Span,
        outcome: crate::Outcome,
    ) {
        if let Some(site) = self.sites.iter().find(|site| site.output == output) {
            let binding = site.binding;
            self.appends.wrote(binding, tensor.clone(), span, outcome);
        }
        self.set(output, tensor);
    }

    /// Says why output `output`, although bound, is computed densely; `explain()` shows it.
    pub fn copied_because(&mut self, output: usize, reason: impl Into<String>) {
        if let Some(site) = self.sites.iter().find(|site| site.output == output) {
            self.appends.copied_because(site.binding, reason.into());
        }
    }

    /// Reports storage work of an append or of its dense fallback.
    pub fn report(&mut self, report: StorageReport) {
        self.meter.storage(report);
    }

    /// Records an event of this node; nothing with events off.
    pub fn record_event(&mut self, action: RuntimeEventAction, storage: StorageReport) {
        self.meter.record(action, None, storage);
    }

    /// For kernels that do long work without tasks, between its parts.
    ///
    /// # Errors
    /// When the caller asked to stop, or the run was cancelled.
    pub fn check_interrupt(&self) -> Result<(), OpError> {
        self.interrupt.check()
    }
}

/// Whether a kernel wrote every reserved byte.
fn check_written(reservation: &AppendReservation, written: usize) -> Result<(), OpError> {
    let reserved = reservation.bytes();
    if written == reserved {
        return Ok(());
    }
    Err(OpError::Value {
        what: "initialised bytes",
        expected: reserved.to_string(),
        got: written.to_string(),
    })
}

fn unbound(output: usize) -> OpError {
    OpError::Unsupported(format!(
        "output {output} is not bound to an input of this node"
    ))
}
