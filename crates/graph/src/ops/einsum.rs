//! `Einsum`: sums of products over named axes.

use super::rules::refused;
use super::{MANY, op};
use crate::attributes::AttributeError;
use crate::schema::{Attr, InferError, Inference, OpSchema};
use crate::types::Dim;

/// One side's term: letters, and perhaps `...` after some of them.
#[derive(Debug, Clone, Default)]
struct Term {
    /// Letters before the dots, or all of them.
    before: Vec<u8>,
    /// Letters after the dots, when there are dots.
    after: Option<Vec<u8>>,
}

impl Term {
    fn read(text: &str) -> Option<Term> {
        let letters = |text: &str| {
            let text: Vec<u8> = text.bytes().filter(|&b| b != b' ').collect();
            text.iter().all(u8::is_ascii_alphabetic).then_some(text)
        };
        match text.split_once("...") {
            None => Some(Term {
                before: letters(text)?,
                after: None,
            }),
            Some((before, after)) => Some(Term {
                before: letters(before)?,
                after: Some(letters(after)?),
            }),
        }
    }

    fn letters(&self) -> impl Iterator<Item = u8> + '_ {
        self.before
            .iter()
            .chain(self.after.iter().flatten())
            .copied()
    }

    fn count(&self) -> usize {
        self.before.len() + self.after.as_ref().map_or(0, Vec::len)
    }
}

/// An equation as its input terms and, when it has an arrow, its output term.
fn read_equation(text: &str) -> Option<(Vec<Term>, Option<Term>)> {
    let (inputs, output) = match text.split_once("->") {
        None => (text, None),
        Some((inputs, output)) => (inputs, Some(Term::read(output)?)),
    };
    let inputs: Option<Vec<Term>> = inputs.split(',').map(Term::read).collect();
    Some((inputs?, output))
}

/// Extents of the 52 letters.
struct Letters([Option<Dim>; 128]);

impl Letters {
    /// Holds what an input says of a letter: an extent of 1 broadcasts.
    fn add(&mut self, letter: u8, dim: &Dim, index: usize) -> Result<(), InferError> {
        let slot = &mut self.0[usize::from(letter & 127)];
        *slot = Some(match (slot.take(), dim) {
            (None, dim) => dim.clone(),
            (Some(Dim::Known(a)), Dim::Known(b)) if a != *b && a != 1 && *b != 1 => {
                return refused(format!(
                    "axis `{}` is {b} at input {index}, {a} before",
                    char::from(letter)
                ));
            }
            (Some(Dim::Known(1)), dim) => dim.clone(),
            (Some(held @ Dim::Known(_)), _) => held,
            (Some(_), dim @ Dim::Known(n)) if *n != 1 => dim.clone(),
            (Some(held), _) => held,
        });
        Ok(())
    }

    fn get(&self, letter: u8) -> Option<Dim> {
        self.0[usize::from(letter & 127)].clone()
    }
}

/// Shapes that the dots stand for, broadcast to each other.
fn add_dots(held: Option<Vec<Dim>>, dims: &[Dim]) -> Result<Vec<Dim>, InferError> {
    match held {
        None => Ok(dims.to_vec()),
        Some(held) => super::rules::broadcast_shapes(&held, dims),
    }
}

fn einsum(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = cx.same_dtype(0..cx.input_count())?;
    let missing = AttributeError::Missing { name: "equation" };
    let text = cx.attributes.string("equation")?.ok_or(missing)?;
    let bad = |expected| {
        InferError::from(AttributeError::Value {
            name: "equation",
            expected,
            got: text.chars().take(200).collect(),
        })
    };
    let (terms, output) = read_equation(text)
        .ok_or_else(|| bad("terms of letters, with one `...` at most, and one arrow at most"))?;
    if terms.len() != cx.input_count() {
        return Err(bad("one term for each input"));
    }
    let mut letters = Letters([const { None }; 128]);
    let mut dots: Option<Vec<Dim>> = None;
    let mut all_ranks = true;
    for (index, term) in terms.iter().enumerate() {
        let Some(shape) = cx.shape(index) else {
            all_ranks &= term.after.is_none();
            for letter in term.letters() {
                letters.add(letter, &Dim::Unknown, index)?;
            }
            continue;
        };
        let fits = match term.after {
            Some(_) => shape.len() >= term.count(),
            None => shape.len() == term.count(),
        };
        if !fits {
            let (got, want) = (shape.len(), term.count());
            return refused(format!(
                "input {index}: its term names {want} axes, the input has {got}"
            ));
        }
        for (&letter, dim) in term.before.iter().zip(shape) {
            letters.add(letter, dim, index)?;
        }
        if let Some(after) = &term.after {
            let tail = shape.len() - after.len();
            for (&letter, dim) in after.iter().zip(&shape[tail..]) {
                letters.add(letter, dim, index)?;
            }
            dots = Some(add_dots(dots, &shape[term.before.len()..tail])?);
        }
    }
    let output = match output {
        Some(output) => output,
        None => implicit_output(&terms),
    };
    let mut shape = Vec::new();
    for (part, after_dots) in [(Some(&output.before), false), (output.after.as_ref(), true)] {
        let Some(part) = part else { continue };
        if after_dots {
            shape.extend(dots.iter().flatten().cloned());
        }
        for &letter in part {
            let dim = letters
                .get(letter)
                .ok_or_else(|| bad("an output of letters that the inputs have"))?;
            shape.push(dim);
        }
    }
    let known = all_ranks || output.after.is_none();
    cx.set(0, dtype, known.then_some(shape));
    Ok(())
}

/// Without an arrow, the output has the dots, then the letters that occur once, in the order of the alphabet.
fn implicit_output(terms: &[Term]) -> Term {
    let mut counts = [0u32; 128];
    for letter in terms.iter().flat_map(Term::letters) {
        counts[usize::from(letter & 127)] += 1;
    }
    let once = (0u8..128)
        .filter(|&letter| counts[usize::from(letter)] == 1)
        .collect();
    if terms.iter().any(|term| term.after.is_some()) {
        Term {
            before: Vec::new(),
            after: Some(once),
        }
    } else {
        Term {
            before: once,
            after: None,
        }
    }
}

pub(super) const SCHEMAS: &[OpSchema] =
    &[op("Einsum", &[12, 28], MANY, einsum).attributes(&[Attr::string("equation").required()])];
