//! Operators that hold graphs: `If`, `Loop` and `SequenceMap`; `Scan` stands in a file of its own.

use super::join::{join, shapeless};
use super::layout::axis_of;
use super::rules::refused;
use super::{MANY, ONE, op};
use crate::schema::{Arity, Attr, InferError, Inference, OpSchema};
use crate::types::{Dim, TensorType, ValueType};
use refeed_proto::{GraphProto, TensorProto};
use refeed_values::DType;

/// How often the body of a loop is walked before the shapes of its states are given up.
const WALKS: usize = 3;

/// Enters a graph and checks the number of its outputs.
pub(super) fn enter(
    cx: &mut Inference<'_>,
    attribute: &'static str,
    inputs: &[ValueType],
    outputs: usize,
) -> Result<Option<Vec<ValueType>>, InferError> {
    match cx.infer_graph(attribute, inputs)? {
        Some(types) if types.len() != outputs => Err(InferError::Graph {
            attribute,
            what: "outputs",
            expected: outputs.to_string(),
            got: types.len(),
        }),
        types => Ok(types),
    }
}

/// What both branches give.
fn conditional(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let count = cx.output_count();
    let then_types = enter(cx, "then_branch", &[], count)?;
    let else_types = enter(cx, "else_branch", &[], count)?;
    let (Some(then_types), Some(else_types)) = (then_types, else_types) else {
        return Ok(());
    };
    for (index, (a, b)) in then_types.iter().zip(&else_types).enumerate() {
        let Some(ty) = join(a, b) else {
            return refused(format!(
                "output {index} is {a} in then_branch and {b} in else_branch"
            ));
        };
        cx.set_type(index, ty);
    }
    Ok(())
}

/// The type of a state in all iterations, from that before one and that after it. A value where an optional one is
/// taken counts as one.
fn next_state(state: &ValueType, next: &ValueType) -> Option<ValueType> {
    match (state, next) {
        (ValueType::Optional(_), ValueType::Optional(_)) => join(state, next),
        (ValueType::Optional(held), next) => join(held, next).map(ValueType::optional_of),
        _ => join(state, next),
    }
}

/// Types of a loop whose body was walked.
struct Settled {
    /// Of the states, before and after any iteration.
    states: Vec<ValueType>,
    /// Of all that the body gives, the condition first.
    given: Vec<ValueType>,
}

/// Walks the body of a loop until the types of its states stay the same from one iteration to the next: what differs is
/// unknown.
fn settle(
    cx: &mut Inference<'_>,
    fixed: &[ValueType],
    first: &[ValueType],
    outputs: usize,
) -> Result<Option<Settled>, InferError> {
    let mut states = first.to_vec();
    for walk in 0..=WALKS {
        let inputs = [fixed, &states].concat();
        let Some(given) = enter(cx, "body", &inputs, outputs)? else {
            return Ok(None);
        };
        let mut same = true;
        // The condition stands before the states.
        for (index, (state, next)) in states.iter_mut().zip(&given[1..]).enumerate() {
            let Some(joined) = next_state(state, next) else {
                return refused(format!(
                    "state {index} of the loop is {state} before an iteration and {next} after it"
                ));
            };
            same &= joined == *state;
            *state = if walk + 1 < WALKS {
                joined
            } else {
                shapeless(&joined)
            };
        }
        if same {
            return Ok(Some(Settled { states, given }));
        }
    }
    // What never stays the same is unknown; the last walk is one that holds for every iteration.
    states.fill(ValueType::Unset);
    let inputs = [fixed, &states].concat();
    let given = enter(cx, "body", &inputs, outputs)?;
    Ok(given.map(|given| Settled { states, given }))
}

/// Whether a tensor is one true value.
fn is_true(tensor: &TensorProto) -> bool {
    let one = tensor.dims.iter().all(|&dim| dim == 1);
    let held = match &tensor.raw_data {
        Some(raw) => raw[..] == [1],
        None => tensor.int32_data == [1],
    };
    one && held && tensor.data_type == Some(DType::Bool.to_onnx())
}

/// Whether a loop goes on after each iteration: its body hands a true condition on as it is, or gives a true one.
fn goes_on(body: &GraphProto) -> bool {
    let (Some(condition), Some(given)) = (body.input.get(1), body.output.first()) else {
        return false;
    };
    let mut name = given.name();
    for node in body.node.iter().rev() {
        if node.output.iter().all(|output| output != name) {
            continue;
        }
        match (node.op_type(), &node.input[..], &node.attribute[..]) {
            ("Identity", [input], []) => name = input,
            ("Constant", [], [value]) => return value.t.as_deref().is_some_and(is_true),
            _ => return false,
        }
    }
    let held = body.initializer.iter().find(|held| held.name() == name);
    name == condition.name() || held.is_some_and(is_true)
}

/// How often a loop runs, when nothing ends it before that.
fn trip_count(cx: &Inference<'_>) -> Result<Dim, InferError> {
    let begins = cx.constant(1).and_then(|condition| condition.as_bytes());
    let ends =
        cx.has(1) && !(begins == Some(&[1]) && goes_on(cx.attributes.required_graph("body")?));
    if ends {
        return Ok(Dim::Unknown);
    }
    let trips = cx.value(0);
    let trips = trips.as_ref().and_then(|value| value.single());
    Ok(match trips.map(|trips| (trips, trips.constant())) {
        None => Dim::Unknown,
        // A negative count is as good as 0.
        Some((_, Some(count))) => Dim::Known(usize::try_from(count).unwrap_or(0)),
        Some((trips, None)) => Dim::from_expr(trips),
    })
}

/// Trip count and condition, then the states. The outputs are the last states, and what each iteration gives besides.
fn repeat(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let states = cx.input_count().saturating_sub(2);
    let Some(scans) = cx.output_count().checked_sub(states) else {
        return refused(format!(
            "expected an output for each of {states} states, got {}",
            cx.output_count()
        ));
    };
    let fixed = [
        TensorType::of(DType::Int64).into(),
        TensorType::of(DType::Bool).into(),
    ];
    let first: Vec<ValueType> = (2..states + 2)
        .map(|index| cx.input_type(index).cloned().unwrap_or_default())
        .collect();
    let trips = trip_count(cx)?;
    let Some(settled) = settle(cx, &fixed, &first, 1 + states + scans)? else {
        for (index, state) in first.iter().enumerate() {
            cx.set_type(index, shapeless(state));
        }
        return Ok(());
    };
    let runs = trips.known().is_some_and(|trips| trips > 0);
    let Settled {
        states: held,
        given,
    } = settled;
    for (index, state) in held.into_iter().enumerate() {
        let last = &given[1 + index];
        // Of a loop that runs for sure, the last state is one that the body gave. One that begins as an optional value
        // and comes out of the body as a plain one is no output of a type otherwise.
        let plain = matches!(state, ValueType::Optional(_))
            && !matches!(last, ValueType::Optional(_) | ValueType::Unset);
        let known = *last != ValueType::Unset;
        let ty = if plain || (runs && known) {
            last.clone()
        } else {
            state
        };
        cx.set_type(index, ty);
    }
    for (index, element) in given[1 + states..].iter().enumerate() {
        stack(cx, states + index, element, 0, &trips)?;
    }
    Ok(())
}

/// Sets an output to tensors of an element's type, one beside the other along a new axis.
pub(super) fn stack(
    cx: &mut Inference<'_>,
    output: usize,
    element: &ValueType,
    axis: i64,
    count: &Dim,
) -> Result<(), InferError> {
    let (dtype, shape) = match element {
        ValueType::Tensor(tensor) => (tensor.dtype, tensor.shape.clone()),
        ValueType::Unset => (None, None),
        other => {
            return refused(format!(
                "output {output}: expected a tensor of each iteration, got {other}"
            ));
        }
    };
    let shape = match shape {
        None => None,
        Some(mut shape) => {
            let axis = axis_of(axis, shape.len() + 1)?;
            shape.insert(axis, count.clone());
            Some(shape)
        }
    };
    cx.set(output, dtype, shape);
    Ok(())
}

/// A graph for each element of a sequence, and of others of the same length; tensors go to each.
fn sequence_map(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.sequence_element(0)?;
    let element = |ty: Option<&ValueType>| match ty {
        Some(ValueType::Sequence(element)) => (**element).clone(),
        Some(other) => other.clone(),
        None => ValueType::Unset,
    };
    let inputs: Vec<ValueType> = (0..cx.input_count())
        .map(|index| element(cx.input_type(index)))
        .collect();
    let count = cx.output_count();
    let given = enter(cx, "body", &inputs, count)?;
    for index in 0..count {
        let element = given
            .as_ref()
            .map_or(ValueType::Unset, |given| given[index].clone());
        cx.set_type(index, ValueType::sequence_of(element));
    }
    Ok(())
}

const SINCE: &[i64] = &[1, 11, 13, 16, 19, 21, 23, 24, 25];

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("If", SINCE, ONE, conditional)
        .outputs(MANY)
        .attributes(&[
            Attr::graph("else_branch").required(),
            Attr::graph("then_branch").required(),
        ]),
    op("Loop", SINCE, Arity::at_least(2), repeat)
        .outputs(MANY)
        .attributes(&[Attr::graph("body").required()]),
    op("SequenceMap", &[17], MANY, sequence_map)
        .outputs(MANY)
        .attributes(&[Attr::graph("body").required()]),
];
