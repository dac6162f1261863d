//! What a message is checked against.

use super::parameters::Parameters;
use crate::functions::FunctionTable;
use crate::load::ExternalData;
use crate::struct_types::StructTypes;

/// How much is asked of a model.
///
/// Each asks for everything that the one before asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Rules {
    /// What a session needs: every name, type, size and call has one clear meaning.
    #[default]
    Session,
    /// The format as well: root graph inputs and outputs that are tensors state a shape.
    Verifier,
    /// As the checker of the `onnx` package: operators are those of the imported sets, with the inputs, outputs and
    /// attributes that they have there; graphs have names; nested graphs reuse no name of an outer one.
    Checker(Checker),
}

/// What the checker may be told to pass over or to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Checker {
    /// Let functions import other versions of an operator set than the model.
    pub skip_opset_compatibility: bool,
    /// Ask for a schema of every operator, whatever its domain.
    pub custom_domains: bool,
}

impl Rules {
    /// The checker with its defaults.
    pub const CHECKER: Rules = Rules::Checker(Checker {
        skip_opset_compatibility: false,
        custom_domains: false,
    });

    /// The checker's options, when it asks.
    pub(crate) fn checker(self) -> Option<Checker> {
        match self {
            Rules::Checker(options) => Some(options),
            _ => None,
        }
    }

    /// Whether the checker asks.
    pub(crate) fn is_checker(self) -> bool {
        self.checker().is_some()
    }

    /// Whether root graph inputs and outputs must state a shape.
    pub(crate) fn asks_for_shapes(self) -> bool {
        self != Rules::Session
    }
}

/// What is around a message. Every part may be missing, because messages are also checked apart from a model.
pub(crate) struct Context<'m> {
    pub(crate) rules: Rules,
    pub(crate) ir_version: i64,
    /// The model's functions.
    pub(crate) functions: Option<&'m FunctionTable<'m>>,
    /// Where tensors in other files are; when that is not known, only their entries are checked.
    pub(crate) external: Option<&'m ExternalData>,
    pub(crate) catalogue: &'m StructTypes,
    /// The model's shared quantization parameters; references to them are taken on trust without.
    pub(crate) parameters: Option<&'m Parameters<'m>>,
}
