//! The last row of each sequence's logits, and what makes a row useless.

use super::error::{GenerationError, shown};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use refeed_values::{Allocator, DType, Element, RuntimeValue, Tensor};

/// Elements that are widened at a time.
const BLOCK: usize = 256;

/// Logits of one step, checked: one row of `vocabulary` numbers for each row of the batch.
#[derive(Debug, Clone)]
pub(super) struct Logits {
    /// Dense.
    tensor: Tensor,
    pub(super) vocabulary: usize,
    /// Element where the first row of the batch starts, and elements from one to the next.
    first: usize,
    step: usize,
}

/// The logits of one row.
#[derive(Clone, Copy)]
pub(super) enum LogitRow<'a> {
    Float(&'a [f32]),
    Double(&'a [f64]),
    Float16(&'a [f16]),
    Bfloat16(&'a [bf16]),
}

/// Why no token can be chosen from a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Useless {
    /// It holds a NaN or positive infinity.
    NotFinite,
    /// It holds nothing but negative infinities.
    NothingLeft,
}

impl std::fmt::Display for Useless {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Useless::NotFinite => {
                "expected finite numbers or negative infinity, got NaN or infinity"
            }
            Useless::NothingLeft => "every token is forbidden: all logits are negative infinity",
        })
    }
}

impl Logits {
    /// Checks an output: `[batch, vocabulary]`, or `[batch, sequence, vocabulary]` of which the last position counts.
    ///
    /// # Errors
    /// When it is no such tensor.
    pub(super) fn read(
        name: &str,
        value: Option<&RuntimeValue>,
        batch: usize,
    ) -> Result<Logits, GenerationError> {
        let refuse = |expected: &str, got: String| GenerationError::Logits {
            name: name.to_string(),
            expected: expected.to_string(),
            got,
        };
        let Some(tensor) = value.and_then(RuntimeValue::tensor) else {
            let got = value.map_or("nothing", RuntimeValue::kind);
            return Err(refuse("a tensor", got.to_string()));
        };
        let (dtype, shape) = (tensor.dtype(), tensor.shape());
        let float = [DType::Float, DType::Double, DType::Float16, DType::Bfloat16];
        if !float.contains(&dtype) {
            let expected = "FLOAT, DOUBLE, FLOAT16 or BFLOAT16 elements";
            return Err(refuse(expected, shown(dtype, shape)));
        }
        let (sequence, vocabulary) = match *shape {
            [rows, vocabulary] if rows == batch => (1, vocabulary),
            [rows, sequence, vocabulary] if rows == batch => (sequence, vocabulary),
            _ => {
                let expected = format!("[{batch}, vocabulary] or [{batch}, sequence, vocabulary]");
                return Err(refuse(&expected, shown(dtype, shape)));
            }
        };
        if sequence == 0 || vocabulary == 0 {
            let expected = "at least one position and one token";
            return Err(refuse(expected, shown(dtype, shape)));
        }
        let dense = match tensor.is_contiguous() && tensor.is_aligned() {
            true => tensor.clone(),
            false => tensor.to_dense(&Allocator::default())?,
        };
        Ok(Logits {
            tensor: dense,
            vocabulary,
            first: (sequence - 1) * vocabulary,
            step: sequence * vocabulary,
        })
    }

    fn slice<T: Element>(&self, row: usize) -> &[T] {
        let at = self.first + row * self.step;
        let all = self
            .tensor
            .view::<T>()
            .ok()
            .and_then(|view| view.as_slice());
        all.and_then(|all| all.get(at..at + self.vocabulary))
            .unwrap_or(&[])
    }

    /// The logits of a row of the batch.
    pub(super) fn row(&self, row: usize) -> LogitRow<'_> {
        match self.tensor.dtype() {
            DType::Double => LogitRow::Double(self.slice(row)),
            DType::Float16 => LogitRow::Float16(self.slice(row)),
            DType::Bfloat16 => LogitRow::Bfloat16(self.slice(row)),
            _ => LogitRow::Float(self.slice(row)),
        }
    }

    /// The rows `rows` of the batch, in this order.
    ///
    /// # Errors
    /// When memory cannot be had.
    pub(super) fn select(&self, rows: &[usize]) -> Result<Logits, GenerationError> {
        let width = self.vocabulary * self.tensor.dtype().bits() / 8;
        let bytes = self.tensor.as_bytes().unwrap_or(&[]);
        let shape = [rows.len(), self.vocabulary];
        let mut chosen =
            refeed_values::TensorMut::new(&Allocator::default(), self.tensor.dtype(), &shape)?;
        for (to, row) in chosen.as_mut_bytes().chunks_exact_mut(width).zip(rows) {
            let start = (self.first + row * self.step) * (width / self.vocabulary);
            if let Some(from) = bytes.get(start..start + width) {
                to.copy_from_slice(from);
            }
        }
        Ok(Logits {
            tensor: chosen.freeze(),
            vocabulary: self.vocabulary,
            first: 0,
            step: self.vocabulary,
        })
    }
}

/// What the search for a maximum needs of a number.
trait Number: Copy + PartialOrd {
    const INFINITY: Self;
    const NEGATIVE_INFINITY: Self;
}

impl Number for f32 {
    const INFINITY: f32 = f32::INFINITY;
    const NEGATIVE_INFINITY: f32 = f32::NEG_INFINITY;
}

impl Number for f64 {
    const INFINITY: f64 = f64::INFINITY;
    const NEGATIVE_INFINITY: f64 = f64::NEG_INFINITY;
}

/// The largest number.
///
/// # Errors
/// When one is NaN or positive infinity. A row without finite numbers has the maximum negative infinity.
fn maximum<T: Number>(row: &[T]) -> Result<T, Useless> {
    const LANES: usize = 8;
    let mut best = [T::NEGATIVE_INFINITY; LANES];
    let mut fine = [true; LANES];
    let mut blocks = row.chunks_exact(LANES);
    for block in &mut blocks {
        for (lane, x) in block.iter().enumerate() {
            best[lane] = if *x > best[lane] { *x } else { best[lane] };
            fine[lane] &= *x < T::INFINITY;
        }
    }
    for (lane, x) in blocks.remainder().iter().enumerate() {
        best[lane] = if *x > best[lane] { *x } else { best[lane] };
        fine[lane] &= *x < T::INFINITY;
    }
    if fine.contains(&false) {
        return Err(Useless::NotFinite);
    }
    let larger = |a, b| if b > a { b } else { a };
    Ok(best.into_iter().fold(T::NEGATIVE_INFINITY, larger))
}

/// Where the largest number stands first.
fn first_maximum<T: Number>(row: &[T]) -> Result<usize, Useless> {
    let most = maximum(row)?;
    let at = row.iter().position(|x| *x == most);
    at.filter(|_| most > T::NEGATIVE_INFINITY)
        .ok_or(Useless::NothingLeft)
}

/// The same for numbers that are widened block by block.
fn first_maximum_widened<T: Copy>(
    row: &[T],
    widen: impl Fn(&[T], &mut [f32]),
) -> Result<usize, Useless> {
    let mut wide = [0f32; BLOCK];
    let (mut most, mut at) = (f32::NEG_INFINITY, None);
    for (index, block) in row.chunks(BLOCK).enumerate() {
        let wide = &mut wide[..block.len()];
        widen(block, wide);
        let largest = maximum(wide)?;
        if largest > most {
            most = largest;
            at = wide
                .iter()
                .position(|x| *x == most)
                .map(|within| index * BLOCK + within);
        }
    }
    at.ok_or(Useless::NothingLeft)
}

impl LogitRow<'_> {
    /// The most probable token; of equal ones the first.
    ///
    /// # Errors
    /// When the row is useless.
    pub(super) fn argmax(&self) -> Result<usize, Useless> {
        match self {
            LogitRow::Float(row) => first_maximum(row),
            LogitRow::Double(row) => first_maximum(row),
            LogitRow::Float16(row) => {
                first_maximum_widened(row, |from, to| from.convert_to_f32_slice(to))
            }
            LogitRow::Bfloat16(row) => {
                first_maximum_widened(row, |from, to| from.convert_to_f32_slice(to))
            }
        }
    }

    /// The logit of a token; negative infinity outside of the vocabulary.
    pub(super) fn get(&self, token: usize) -> f64 {
        let found = match self {
            LogitRow::Float(row) => row.get(token).map(|x| f64::from(*x)),
            LogitRow::Double(row) => row.get(token).copied(),
            LogitRow::Float16(row) => row.get(token).map(|x| f64::from(*x)),
            LogitRow::Bfloat16(row) => row.get(token).map(|x| f64::from(*x)),
        };
        found.unwrap_or(f64::NEG_INFINITY)
    }

    /// Puts the numbers into `wide`, whose memory is used again, and returns the largest.
    ///
    /// # Errors
    /// When the row is useless.
    pub(super) fn widen(&self, wide: &mut Vec<f64>) -> Result<f64, Useless> {
        wide.clear();
        match self {
            LogitRow::Float(row) => wide.extend(row.iter().map(|x| f64::from(*x))),
            LogitRow::Double(row) => wide.extend_from_slice(row),
            LogitRow::Float16(row) => wide.extend(row.iter().map(|x| f64::from(*x))),
            LogitRow::Bfloat16(row) => wide.extend(row.iter().map(|x| f64::from(*x))),
        }
        largest(wide)
    }
}

/// The largest of widened numbers.
///
/// # Errors
/// When the row is useless.
pub(super) fn largest(wide: &[f64]) -> Result<f64, Useless> {
    let most = maximum(wide)?;
    match most > f64::NEG_INFINITY {
        true => Ok(most),
        false => Err(Useless::NothingLeft),
    }
}

/// The most probable token of widened numbers; of equal ones the first.
///
/// # Errors
/// When the row is useless.
pub(super) fn argmax(wide: &[f64]) -> Result<usize, Useless> {
    first_maximum(wide)
}
