//! What can go wrong with a session, a state or a call.

use crate::completion::CompletionError;
use crate::conform::ConformError;
use crate::events::NodeLabel;
use crate::kernel::OpError;
use crate::state_file::StateFileError;
use refeed_graph::ModelError;
use refeed_graph::schema::InferError;
use refeed_values::life_cycle::Refusal;
use refeed_values::{AllocError, TensorError, ValueError};
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// Where a node stands, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePath {
    /// Position in the graph that holds the node.
    pub index: usize,
    /// The node's name; may be empty.
    pub name: Arc<str>,
    /// Operator domain.
    pub domain: Arc<str>,
    /// Operator.
    pub op_type: Arc<str>,
    /// Root position and attribute of the control-flow node around it.
    pub within: Option<(usize, Arc<str>)>,
}

impl fmt::Display for NodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.index)?;
        if let Some((index, attribute)) = &self.within {
            write!(f, " of `{attribute}` of node {index}")?;
        }
        if !self.name.is_empty() {
            write!(f, " `{}`", self.name)?;
        }
        match &*self.domain {
            "" => write!(f, " ({})", self.op_type),
            domain => write!(f, " ({domain}:{})", self.op_type),
        }
    }
}

impl From<&NodeLabel> for NodePath {
    fn from(label: &NodeLabel) -> NodePath {
        NodePath {
            index: label.index,
            name: label.name.clone(),
            domain: label.domain.clone(),
            op_type: label.op_type.clone(),
            within: label.within.clone(),
        }
    }
}

/// A node that failed while it ran.
#[derive(Debug, Error)]
#[error("{node}: {source}")]
pub struct RunError {
    /// Which node.
    pub node: NodePath,
    /// Why.
    pub source: OpError,
}

impl RunError {
    /// Whether the caller's own wish to stop ended the run.
    pub fn is_interrupt(&self) -> bool {
        match &self.source {
            OpError::Interrupted => true,
            other => other.nested().is_some_and(RunError::is_interrupt),
        }
    }

    /// Whether a cancelled completion ended the run.
    pub(crate) fn is_cancelled(&self) -> bool {
        match &self.source {
            OpError::Cancelled => true,
            other => other.nested().is_some_and(RunError::is_cancelled),
        }
    }
}

/// Why a node cannot be part of a session.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NodeProblem {
    /// refeed has no kernel for the operator.
    #[error("refeed has no kernel for this operator")]
    NoKernel,
    /// The operator is none of refeed's, and the caller has registered no kernel for it.
    #[error(
        "no kernel is registered for this operator: register one with the context of the call, or for the process"
    )]
    Unregistered,
    /// The kernel does not compute this element type.
    #[error("input {index}: elements of {got} are not computed; expected one of {expected}")]
    DType {
        /// Input position.
        index: usize,
        /// Element type in the model.
        got: refeed_values::DType,
        /// What the kernel computes.
        expected: String,
    },
    /// The kernel does not read values of this kind.
    #[error("input {index}: expected {expected}, got a {got}")]
    Kind {
        /// Input position.
        index: usize,
        /// What the kernel reads.
        expected: &'static str,
        /// The kind in the model.
        got: &'static str,
    },
    /// The number of inputs or outputs is not the operator's.
    #[error("expected {expected} {what}, got {got}")]
    Arity {
        /// "inputs" or "outputs".
        what: &'static str,
        /// What the operator accepts.
        expected: String,
        /// What the node has.
        got: usize,
    },
    /// The model imports a version of the operator that is older than what refeed reads.
    #[error("opset {got} is older than the oldest version that refeed reads, {oldest}")]
    Version {
        /// Imported version.
        got: i64,
        /// Oldest version that the schema covers.
        oldest: i64,
    },
    /// The node's types contradict its operator.
    #[error(transparent)]
    Infer(#[from] InferError),
    /// The kernel could not be built.
    #[error(transparent)]
    Build(#[from] OpError),
}

/// A model that no session can be made of.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The model itself is broken, or breaks the rules of bindings.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Nodes that cannot be computed; the first few are named.
    #[error("{}", list_problems(.0))]
    Unsupported(Vec<(NodePath, NodeProblem)>),
    /// Nodes whose kernel the caller has not registered; the first few are named.
    #[error("{}", list_unregistered(.0))]
    Unregistered(Vec<NodePath>),
    /// A value is used that nothing defines.
    #[error("{node} uses `{name}`, which nothing defines")]
    Undefined {
        /// The node.
        node: NodePath,
        /// The value.
        name: String,
    },
    /// A declared output that nothing defines.
    #[error("graph output `{0}` is produced by nothing")]
    NoProducer(String),
    /// A graph input or output, or a part of one, of a kind that no value is of.
    #[error(
        "graph {role} `{name}`: {kind} values are not supported, expected a tensor, a struct or a sequence"
    )]
    Kind {
        /// "input" or "output".
        role: &'static str,
        /// The value, or the part of it.
        name: String,
        /// Its kind.
        kind: &'static str,
    },
    /// The model imports a version of ai.onnx whose operators may mean what refeed does not know.
    #[error("opset {got} of ai.onnx is newer than the newest that refeed reads, {newest}")]
    Opset {
        /// Imported version.
        got: i64,
        /// Newest version that the schemas cover.
        newest: i64,
    },
    /// The environment asks for an instruction set that the machine does not have.
    #[error(transparent)]
    Isa(#[from] refeed_kernels::IsaError),
}

fn list_problems(problems: &[(NodePath, NodeProblem)]) -> String {
    list(problems.iter().map(|(node, problem)| (node, problem)))
}

fn list_unregistered(nodes: &[NodePath]) -> String {
    list(nodes.iter().map(|node| (node, &NodeProblem::Unregistered)))
}

fn list<'p>(problems: impl ExactSizeIterator<Item = (&'p NodePath, &'p NodeProblem)>) -> String {
    const SHOWN: usize = 5;
    let more = problems.len().saturating_sub(SHOWN);
    let mut lines: Vec<String> = problems
        .take(SHOWN)
        .map(|(node, problem)| format!("{node}: {problem}"))
        .collect();
    if more > 0 {
        lines.push(format!("and {more} more nodes"));
    }
    lines.join("; ")
}

/// A call, or a change of a state, that did not happen. The state is as it was before.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StateError {
    /// No session can be made of the model.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The model declares no binding.
    #[error("missing graph persistence declarations: the model binds no input to an output")]
    NoBindings,
    /// A feed or initial value names no graph input.
    #[error("unknown graph input `{0}`")]
    UnknownInput(String),
    /// A feed names a bound input.
    #[error("feeds must not override retained input `{0}`")]
    OverridesRetained(String),
    /// An input is neither fed nor given by an initializer.
    #[error("missing current input `{0}`")]
    MissingInput(String),
    /// The same, of a model that binds nothing: its caches may be meant to be bound.
    #[error(
        "missing current input `{0}`: the model binds no input to an output, so each must be fed; `bind` says which output \
         is the next value of which input"
    )]
    MissingUnbound(String),
    /// A bound input has no initial value.
    #[error("missing initial whole input `{0}`")]
    MissingInitial(String),
    /// Initial values that are no bound inputs.
    #[error("initial values must name exactly the retained whole inputs; `{0}` is not one")]
    NotRetained(String),
    /// An asked-for output is no graph output.
    #[error("unknown graph output `{0}`")]
    UnknownOutput(String),
    /// A value contradicts its declared type.
    #[error(transparent)]
    Conform(#[from] ConformError),
    /// A node failed.
    #[error(transparent)]
    Run(#[from] Box<RunError>),
    /// An output could not be kept apart from a feed, or another value not be made.
    #[error("output `{name}`: {source}")]
    Output {
        /// The output.
        name: Arc<str>,
        /// Why.
        source: TensorError,
    },
    /// A graph output is an optional value without a value.
    #[error("graph output `{0}` is an empty optional value, which is no value to give out")]
    EmptyOutput(Arc<str>),
    /// A struct or sequence could not be kept, or not be kept apart from a feed.
    #[error("`{name}`: {source}")]
    Value {
        /// The value.
        name: Arc<str>,
        /// Why.
        source: ValueError,
    },
    /// Another run, reset or close of this state is going on.
    #[error("state is busy: run, reset, close and values of one state must not overlap")]
    Busy,
    /// The state is closed.
    #[error("state is closed")]
    Closed,
    /// The run's completion was cancelled before the run published anything.
    #[error("run cancelled{}", told(.message))]
    Cancelled {
        /// What the canceller said; may be empty.
        message: Arc<str>,
    },
    /// An event could not be recorded.
    #[error("recording of an event: {0}")]
    Event(AllocError),
    /// A checkpoint of another model.
    #[error("the checkpoint is of another model than the state")]
    OtherModel,
    /// A file cannot be written or read.
    #[error(transparent)]
    File(#[from] StateFileError),
    /// Values that cannot go back to fewer rows, beside others that can.
    #[error(
        "values that do not grow cannot be truncated: {}; they stay what the later steps made of them, so the whole \
         state cannot go back", list_names(.0)
    )]
    NotGrowing(Vec<Arc<str>>),
    /// No value grows.
    #[error("no value of this state grows: there is nothing to truncate")]
    NothingGrows,
    /// A value cannot be cut to the wanted length.
    #[error("retained input `{name}` cannot be truncated: {reason}")]
    Truncate {
        /// The bound input.
        name: Arc<str>,
        /// Why.
        reason: String,
    },
    /// Batch axes said of what is no bound input.
    #[error("axes: `{0}` is no retained input")]
    NoSuchAxis(String),
    /// Rows of a value cannot be chosen.
    #[error("rows of retained input `{name}` cannot be selected: {reason}")]
    Select {
        /// The bound input.
        name: Arc<str>,
        /// Why.
        reason: String,
    },
    /// A context with other allocators than the first call's.
    #[error("context allocators changed between calls: reuse the context of the first call")]
    AllocatorsChanged,
    /// A value that a context keeps under the name of a constant of the model.
    #[error("the context has a value `{0}`, which the model defines as a constant")]
    OverridesConstant(String),
    /// A completion that is in use or used up.
    #[error(transparent)]
    Completion(#[from] CompletionError),
}

/// The first few names, in quotes.
fn list_names(names: &[Arc<str>]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{name}`"))
        .collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A canceller's words, behind a colon.
fn told(message: &str) -> String {
    match message {
        "" => String::new(),
        message => format!(": {message}"),
    }
}

impl From<Refusal> for StateError {
    fn from(refusal: Refusal) -> StateError {
        match refusal {
            Refusal::Busy => StateError::Busy,
            Refusal::Closed => StateError::Closed,
        }
    }
}

impl StateError {
    /// Whether the caller's own wish to stop ended the run.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, StateError::Run(run) if run.is_interrupt())
    }

    /// Whether a cancelled completion ended the run.
    pub fn is_cancelled(&self) -> bool {
        match self {
            StateError::Run(run) => run.is_cancelled(),
            StateError::Cancelled { .. } => true,
            _ => false,
        }
    }
}
