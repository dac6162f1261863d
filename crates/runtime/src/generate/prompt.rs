//! Which graph inputs the loop feeds, and what a caller may feed to start with.

use super::engine::Batch;
use super::error::{GenerationError, shown};
use super::options::GenerationOptions;
use super::row::Row;
use refeed_graph::Model;
use refeed_graph::types::{ValueInfo, ValueType};
use refeed_proto::NodeProto;
use refeed_values::{DType, RuntimeValue, Tensor};

/// A graph input that the loop makes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made {
    pub(super) input: usize,
    /// INT64 or INT32.
    pub(super) dtype: DType,
}

/// The graph inputs that the loop feeds, and the output that it reads.
#[derive(Debug, Clone)]
pub(super) struct Roles {
    pub(super) ids: Made,
    pub(super) mask: Option<Made>,
    pub(super) positions: Option<Made>,
    pub(super) logits: usize,
    pub(super) logits_name: String,
    /// What would take padding for tokens, as errors say it, when the model has such a thing.
    pub(super) blind: Option<String>,
}

/// Which types of masks and positions are made.
#[derive(Debug, Clone, Copy)]
pub(super) enum Makes {
    /// INT64, as every runtime does.
    Int64,
    /// INT64 and INT32, of the token ids as well.
    Integers,
}

impl Makes {
    fn admits(self, dtype: DType) -> bool {
        match self {
            Makes::Int64 => dtype == DType::Int64,
            Makes::Integers => matches!(dtype, DType::Int64 | DType::Int32),
        }
    }

    fn text(self) -> &'static str {
        match self {
            Makes::Int64 => "INT64",
            Makes::Integers => "INT64 or INT32",
        }
    }
}

fn position(values: &[ValueInfo], name: &str) -> Option<usize> {
    values.iter().position(|value| &*value.name == name)
}

fn list(values: &[ValueInfo]) -> String {
    let names: Vec<String> = values.iter().map(|v| format!("`{}`", v.name)).collect();
    match names.is_empty() {
        true => "none".to_string(),
        false => names.join(", "),
    }
}

/// The declared element type of a tensor input.
pub(super) fn dtype_of(ty: &ValueType) -> Option<DType> {
    ty.tensor().and_then(|tensor| tensor.dtype)
}

/// The first attention of a model that no mask reaches, nested graphs and functions included, and why it would take padding
/// for tokens. A GroupQueryAttention takes the number of ones in the mask for the length of a row and reads its keys from
/// the front, whatever stands there; a PagedAttention has no mask at all.
fn blind_node(model: &Model) -> Option<String> {
    let functions = model.proto().functions.iter();
    let mut open: Vec<_> = functions.flat_map(|function| &function.node).collect();
    open.extend(&model.graph().node);
    while let Some(node) = nested_too(&mut open) {
        let why = match (node.domain(), node.op_type()) {
            ("com.microsoft", "GroupQueryAttention") => {
                Some("counts the attention mask and does not place it")
            }
            ("ai.rt", "PagedAttention") => Some("has no attention mask"),
            _ => None,
        };
        if let Some(why) = why {
            let kind = format!("{}.{}", node.domain(), node.op_type());
            return Some(match node.name() {
                "" => format!("a {kind} {why}"),
                name => format!("`{name}` ({kind}) {why}"),
            });
        }
    }
    None
}

/// The next of some nodes; those of graphs in it come later.
fn nested_too<'m>(open: &mut Vec<&'m NodeProto>) -> Option<&'m NodeProto> {
    let node = open.pop()?;
    for attribute in &node.attribute {
        let graphs = attribute.g.as_deref().into_iter().chain(&attribute.graphs);
        open.extend(graphs.flat_map(|graph| &graph.node));
    }
    Some(node)
}

/// Whether a node reads a value of the graph.
fn is_read(model: &Model, name: &str) -> bool {
    let mut open: Vec<_> = model.graph().node.iter().collect();
    while let Some(node) = nested_too(&mut open) {
        if node.input.iter().any(|input| &**input == name) {
            return true;
        }
    }
    false
}

/// The position of the input or output that an option names.
pub(super) fn find(
    values: &[ValueInfo],
    option: &'static str,
    role: &'static str,
    name: &str,
) -> Result<usize, GenerationError> {
    position(values, name).ok_or_else(|| GenerationError::NoSuchValue {
        option,
        role,
        name: name.to_string(),
        known: list(values),
    })
}

/// Refuses options that give one graph input two roles.
pub(super) fn check_distinct(
    model: &Model,
    options: &GenerationOptions,
) -> Result<(), GenerationError> {
    let named = [
        ("input_ids_name", &options.input_ids_name),
        ("attention_mask_name", &options.attention_mask_name),
        ("position_ids_name", &options.position_ids_name),
    ];
    for (index, (first, name)) in named.iter().enumerate() {
        for (second, other) in &named[index + 1..] {
            if name == other && position(model.inputs(), name).is_some() {
                return Err(GenerationError::SameName {
                    first,
                    second,
                    name: name.to_string(),
                });
            }
        }
    }
    Ok(())
}

impl Roles {
    /// Finds the inputs by the options' names. Masks and positions of other types than `makes` tells are the caller's own:
    /// they must be among what `is_fed` knows.
    ///
    /// # Errors
    /// When a name is unknown or bound, or an input can neither be made nor is fed.
    pub(super) fn find(
        model: &Model,
        options: &GenerationOptions,
        makes: Makes,
        is_fed: impl Fn(usize) -> bool,
    ) -> Result<Roles, GenerationError> {
        let (inputs, outputs) = (model.inputs(), model.outputs());
        let ids = find(inputs, "input_ids_name", "input", &options.input_ids_name)?;
        let logits = find(outputs, "logits_name", "output", &options.logits_name)?;
        let made = |option, name: &str, input: usize| -> Result<Option<Made>, GenerationError> {
            if let Some(binding) = model.bindings().iter().find(|b| b.input_index == input) {
                return Err(GenerationError::Bound {
                    option,
                    name: name.to_string(),
                    output: binding.output.to_string(),
                });
            }
            // Where nothing is declared, anything is accepted, INT64 too.
            let ty = &inputs[input].ty;
            let dtype = match (ty, dtype_of(ty)) {
                (_, Some(dtype)) => Some(dtype),
                (ValueType::Tensor(_) | ValueType::Unset, None) => Some(DType::Int64),
                _ => None,
            };
            match dtype.filter(|dtype| makes.admits(*dtype)) {
                Some(dtype) => Ok(Some(Made { input, dtype })),
                None if is_fed(input) && option != "input_ids_name" => Ok(None),
                None => Err(GenerationError::NotMade {
                    name: name.to_string(),
                    declared: ty.to_string(),
                    expected: makes.text(),
                }),
            }
        };
        let optional = |option, name: &str| match position(inputs, name) {
            Some(input) => made(option, name, input),
            None => Ok(None),
        };
        let name = &options.input_ids_name;
        let Some(ids) = made("input_ids_name", name, ids)? else {
            return Err(GenerationError::NoSuchValue {
                option: "input_ids_name",
                role: "input",
                name: name.clone(),
                known: list(inputs),
            });
        };
        let mask = optional("attention_mask_name", &options.attention_mask_name)?;
        let unread = || {
            let name = &inputs[mask?.input].name;
            (!is_read(model, name)).then(|| format!("no node reads `{name}`"))
        };
        Ok(Roles {
            ids,
            mask,
            positions: optional("position_ids_name", &options.position_ids_name)?,
            logits,
            logits_name: options.logits_name.clone(),
            blind: blind_node(model).or_else(unread),
        })
    }

    /// Refuses rows with padding where the model cannot tell it from tokens.
    ///
    /// # Errors
    /// When a row has columns that do not count, and the model has no mask, or a node that does not heed it.
    pub(super) fn check_padding(&self, rows: &[Row]) -> Result<(), GenerationError> {
        if !rows.iter().any(Row::is_padded) {
            return Ok(());
        }
        if let Some(blind) = &self.blind {
            return Err(GenerationError::PaddedRows {
                blind: blind.clone(),
                reason: "the padding is among what the model has seen".to_string(),
            });
        }
        if self.mask.is_none() {
            let reason = "rows that ended before others were filled, and the model has no attention mask that tells so: \
                fork(row) goes on with one of them";
            return Err(GenerationError::turn("generate", reason));
        }
        Ok(())
    }

    /// Says of an error that it keeps rows with padding from being evaluated one by one.
    pub(super) fn padding_error(&self, error: GenerationError) -> GenerationError {
        match (error, &self.blind) {
            (GenerationError::Rows { reason, .. }, Some(blind)) => GenerationError::PaddedRows {
                blind: blind.clone(),
                reason,
            },
            (error, _) => error,
        }
    }

    /// Whether a model that sees padding would say something else than without, for all that is known: nothing tells it
    /// what is padding, or it keeps more of it than what a mask hides.
    pub(super) fn padding_shows(&self, batch: &Batch) -> bool {
        self.mask.is_none() || self.blind.is_some() || batch.is_recurrent()
    }

    /// Whether the loop feeds an input.
    pub(super) fn feeds(&self, input: usize) -> bool {
        let made = [Some(self.ids), self.mask, self.positions];
        made.into_iter().flatten().any(|made| made.input == input)
    }
}

/// A prompt as it is fed: one row of tokens for each row of the batch, all of one length.
#[derive(Debug, Clone)]
pub(super) struct Prompt {
    pub(super) batch: usize,
    pub(super) length: usize,
    /// `[batch, length]`.
    pub(super) tokens: Vec<i64>,
}

/// The elements of a fed INT64 tensor.
fn integers(name: &str, tensor: &Tensor) -> Result<Vec<i64>, GenerationError> {
    if tensor.dtype() != DType::Int64 {
        let got = shown(tensor.dtype(), tensor.shape());
        return Err(GenerationError::prompt(name, "INT64 elements", got));
    }
    Ok(tensor.view::<i64>()?.to_vec())
}

impl Prompt {
    /// Checks a fed prompt, in the order of the contract.
    ///
    /// # Errors
    /// When it is no INT64 tensor of two axes with at least one token, too long with `more` tokens, or has a negative id.
    pub(super) fn read(
        name: &str,
        fed: Option<&RuntimeValue>,
        more: usize,
    ) -> Result<Prompt, GenerationError> {
        let Some(tensor) = fed.and_then(RuntimeValue::tensor) else {
            return Err(GenerationError::MissingPrompt {
                name: name.to_string(),
                got: fed.map_or("nothing", RuntimeValue::kind).to_string(),
            });
        };
        let (dtype, shape) = (tensor.dtype(), tensor.shape());
        if dtype != DType::Int64 {
            let expected = "INT64 elements";
            return Err(GenerationError::prompt(name, expected, shown(dtype, shape)));
        }
        let [batch, length] = *shape else {
            let expected = "two axes, [batch, length]";
            return Err(GenerationError::prompt(name, expected, shown(dtype, shape)));
        };
        if batch == 0 || length == 0 {
            let expected = "at least one row and one token";
            return Err(GenerationError::prompt(name, expected, shown(dtype, shape)));
        }
        let total = length.checked_add(more);
        let bytes = total
            .filter(|total| i64::try_from(*total).is_ok())
            .and_then(|total| total.checked_mul(batch)?.checked_mul(size_of::<i64>()))
            .filter(|bytes| isize::try_from(*bytes).is_ok());
        if bytes.is_none() {
            let expected = format!("fewer tokens: {batch} rows of {length} prompt tokens");
            let got = format!("{more} new ones for each, which no memory holds");
            return Err(GenerationError::prompt(name, expected, got));
        }
        let tokens = integers(name, tensor)?;
        if let Some(id) = tokens.iter().find(|id| **id < 0) {
            return Err(GenerationError::prompt(name, "nonnegative token ids", id));
        }
        Ok(Prompt {
            batch,
            length,
            tokens,
        })
    }

    /// The elements of a fed mask or positions, which have the prompt's shape.
    fn companion(&self, name: &str, value: &RuntimeValue) -> Result<Vec<i64>, GenerationError> {
        let Some(tensor) = value.tensor() else {
            return Err(GenerationError::prompt(name, "a tensor", value.kind()));
        };
        let values = integers(name, tensor)?;
        if *tensor.shape() != [self.batch, self.length] {
            let expected = format!("the prompt's shape [{}, {}]", self.batch, self.length);
            let got = shown(tensor.dtype(), tensor.shape());
            return Err(GenerationError::prompt(name, expected, got));
        }
        Ok(values)
    }

    /// Which tokens count: all, or what a fed mask says.
    ///
    /// # Errors
    /// When the mask has another type or shape, holds anything but 0 and 1, a 0 behind a 1, or a row without a 1.
    pub(super) fn mask(
        &self,
        name: &str,
        fed: Option<&RuntimeValue>,
    ) -> Result<Vec<bool>, GenerationError> {
        let Some(value) = fed else {
            return Ok(vec![true; self.tokens.len()]);
        };
        let values = self.companion(name, value)?;
        if let Some(other) = values.iter().find(|value| !matches!(value, 0 | 1)) {
            return Err(GenerationError::prompt(name, "only 0 and 1", other));
        }
        for (index, row) in values.chunks_exact(self.length).enumerate() {
            let Some(first) = row.iter().position(|value| *value == 1) else {
                let expected = "at least one unmasked token in each row";
                let got = format!("none in row {index}");
                return Err(GenerationError::prompt(name, expected, got));
            };
            if let Some(hole) = row[first..].iter().position(|value| *value == 0) {
                let expected = "a left-padded prompt: zeros in front of ones only";
                let got = format!("a 0 behind a 1 in row {index}, column {}", first + hole);
                return Err(GenerationError::prompt(name, expected, got));
            }
        }
        Ok(values.into_iter().map(|value| value == 1).collect())
    }

    /// The positions: what is fed, or for each row the number of unmasked tokens before a token, and 0 on padding.
    ///
    /// # Errors
    /// When fed positions have another type or shape, are negative, or leave no room for `more` tokens.
    pub(super) fn positions(
        &self,
        name: &str,
        fed: Option<&RuntimeValue>,
        mask: &[bool],
        more: usize,
    ) -> Result<Vec<i64>, GenerationError> {
        let Some(value) = fed else {
            let mut positions = Vec::with_capacity(mask.len());
            for row in mask.chunks_exact(self.length) {
                let mut next = 0;
                for seen in row {
                    positions.push(if *seen { next } else { 0 });
                    next += i64::from(*seen);
                }
            }
            return Ok(positions);
        };
        let values = self.companion(name, value)?;
        let most = i64::MAX.saturating_sub_unsigned(more as u64);
        if let Some(other) = values.iter().find(|value| !(0..=most).contains(value)) {
            let expected = format!("positions from 0 to {most}");
            return Err(GenerationError::prompt(name, expected, other));
        }
        Ok(values)
    }
}
