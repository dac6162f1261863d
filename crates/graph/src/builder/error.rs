//! Why an edit or an export is refused.

use crate::error::ModelError;
use crate::load::{LoadError, shown};
use crate::shape_inference::ShapeInferenceError;
use std::fmt;
use thiserror::Error;

/// An edit or an export that cannot be done. The builder is as it was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The model breaks a rule, on import or on export.
    #[error(transparent)]
    Model(Box<ModelError>),
    /// Types that nothing declares cannot be inferred.
    #[error(transparent)]
    Inference(Box<ShapeInferenceError>),
    /// Something that must have a name has none.
    #[error("{what}: expected a name, got an empty one")]
    Unnamed {
        /// What lacks the name.
        what: &'static str,
    },
    /// A name that another value has.
    #[error(
        "{what} `{}`: the name is taken by {by}; choose another one",
        shown(name)
    )]
    NameTaken {
        /// What was to have the name.
        what: &'static str,
        /// The name.
        name: String,
        /// What has it.
        by: String,
    },
    /// A value that the root graph does not define.
    #[error(
        "{at}: value `{}` is defined nowhere in the root graph; make it first",
        shown(name)
    )]
    Undefined {
        /// What was asked for.
        at: String,
        /// The value.
        name: String,
    },
    /// A declaration that is there already.
    #[error("{what} `{}` is given more than once", shown(name))]
    Duplicate {
        /// What is declared.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Something that is not in the model.
    #[error("the graph has no {what} `{}`", shown(name))]
    Missing {
        /// What was looked for.
        what: &'static str,
        /// Its name or number.
        name: String,
    },
    /// A value whose type nothing says.
    #[error(
        "{what} `{}`: expected a type, got none, and none can be inferred; give it",
        shown(name)
    )]
    NoType {
        /// `graph input` or `graph output`.
        what: &'static str,
        /// The value.
        name: String,
    },
    /// An edit after which a value would still be read that nothing makes.
    #[error(
        "removing its node leaves value `{}` without a definition, but {reader} reads it",
        shown(name)
    )]
    StillUsed {
        /// The value.
        name: String,
        /// What reads it.
        reader: String,
    },
    /// An edit after which nodes would need each other.
    #[error("the edit makes a cycle: {cycle}")]
    Cycle {
        /// The nodes of the cycle, joined by arrows.
        cycle: String,
    },
    /// A nested graph has a value of its own of the name that it would have to read.
    #[error(
        "{at} has its own value `{}`, which would hide the one of the root graph; rename one of them",
        shown(name)
    )]
    Hidden {
        /// The node with the nested graph.
        at: String,
        /// The name.
        name: String,
    },
    /// An opset or format version that cannot exist.
    #[error("{what}: expected {expected}, got {got}")]
    Version {
        /// What is versioned.
        what: String,
        /// What is accepted.
        expected: String,
        /// What was given.
        got: i64,
    },
    /// A cut that needs more inputs than it was given.
    #[error(
        "the nodes that make the outputs need values that are no inputs of the cut: {}; add them, or choose inputs closer to the outputs",
        listed(names)
    )]
    NeedsInputs {
        /// Graph inputs of the whole graph that are missing.
        names: Vec<String>,
    },
    /// A cut or merge that separates the ends of a persistent binding.
    #[error(
        "persistent binding `{}` -> `{}` would lose its {lost}: {why}",
        shown(input),
        shown(output)
    )]
    BindingCut {
        /// The binding's input.
        input: String,
        /// The binding's output.
        output: String,
        /// `input` or `output`.
        lost: &'static str,
        /// How.
        why: &'static str,
    },
    /// Two models that name different things alike.
    #[error("the models share names of values: {}; give a prefix", listed(names))]
    NameClash {
        /// The names, sorted.
        names: Vec<String>,
    },
    /// Two models that say different things about one thing.
    #[error("the models disagree about {what}: {ours} and {theirs}")]
    Disagree {
        /// What they both say something about.
        what: String,
        /// What the first says.
        ours: String,
        /// What the second says.
        theirs: String,
    },
    /// An output that cannot be the input it is mapped to.
    #[error(
        "value `{}` cannot be input `{}`: {fault}",
        shown(output),
        shown(input)
    )]
    Connection {
        /// The value of the first model.
        output: String,
        /// The input of the second.
        input: String,
        /// What differs, both sides.
        fault: String,
    },
    /// A model that cannot be merged into another.
    #[error("the second model has {what}, which a merge cannot carry")]
    CannotMerge {
        /// What it has.
        what: String,
    },
    /// An export in a form that cannot carry the whole model.
    #[error(
        "cannot export as {form}: {} would be lost; export the model itself, or remove them first",
        losses(lost)
    )]
    WouldLose {
        /// `standard ONNX` or `a FunctionProto`.
        form: &'static str,
        /// Everything that has no place there.
        lost: Vec<Loss>,
    },
}

impl From<ModelError> for BuildError {
    fn from(error: ModelError) -> BuildError {
        BuildError::Model(Box::new(error))
    }
}

impl From<ShapeInferenceError> for BuildError {
    fn from(error: ShapeInferenceError) -> BuildError {
        BuildError::Inference(Box::new(error))
    }
}

impl From<LoadError> for BuildError {
    fn from(error: LoadError) -> BuildError {
        ModelError::from(error).into()
    }
}

/// One thing that an export has no place for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// What it is: `persistent binding`, `struct type`, `encoded initializer`, `paged cache initializer`, ...
    pub what: &'static str,
    /// Its name; `input -> output` for a binding.
    pub name: String,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.what, shown(&self.name))
    }
}

/// How many names a message lists.
const LISTED: usize = 16;

fn joined<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    let mut list: Vec<String> = items.iter().take(LISTED).map(text).collect();
    if items.len() > LISTED {
        list.push(format!("and {} more", items.len() - LISTED));
    }
    list.join(", ")
}

fn listed(names: &[String]) -> String {
    joined(names, |name| format!("`{}`", shown(name)))
}

fn losses(lost: &[Loss]) -> String {
    joined(lost, Loss::to_string)
}
