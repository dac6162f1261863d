//! The numbers of the affine profile: what codes stand for, and which code stands for a number.
//!
//! `real = (code - zero point) * scale + offset`, block by block, in double. Encoding permutes the elements, applies the
//! forward matrix to each run of `side` elements, and takes the nearest code, ties to even, within the range of codes.
//! Decoding goes the same way back, and puts the outliers where they were.

use super::{BlockRun, Plan};
use crate::encoded::EncodedError;
use crate::encoded::affine::number_at;
use crate::encoded::parameters::{ParameterSet, Role};
use crate::{AllocError, DType, Tensor, TensorError};

/// The parameters of a plan as numbers.
#[derive(Debug)]
pub(in crate::encoded) struct Numbers {
    scales: Vec<f64>,
    zero_points: Vec<f64>,
    offsets: Vec<f64>,
    permutation: Vec<usize>,
    forward: Vec<f64>,
    inverse: Vec<f64>,
    outliers: Vec<usize>,
}

impl Numbers {
    /// The numbers of a shared set, which must be those that the plan asks for.
    pub(in crate::encoded) fn of_set(
        set: &ParameterSet,
        plan: &Plan,
    ) -> Result<Numbers, EncodedError> {
        if set.tensor(Role::Codebooks).is_some() {
            return Err(EncodedError::part(
                "codebooks",
                "none for affine blocks",
                "some",
            ));
        }
        let blocks = plan.blocks() as usize;
        let square = plan.matrix.saturating_mul(plan.matrix);
        let permuted = if plan.permuted { plan.count } else { 0 };
        Numbers {
            scales: numbers(set, Role::Scales, "scales", blocks, None)?,
            zero_points: numbers(set, Role::ZeroPoints, "zero_points", blocks, Some(0.0))?,
            offsets: numbers(set, Role::Offsets, "offsets", blocks, Some(0.0))?,
            permutation: positions(set, Role::Permutation, "permutation", permuted, plan.count)?,
            forward: numbers(set, Role::Forward, "forward", square, None)?,
            inverse: numbers(set, Role::Inverse, "inverse", square, None)?,
            outliers: positions(set, Role::Outliers, "outliers", plan.outliers, plan.count)?,
        }
        .checked()
    }

    /// The numbers and the codes of a value that carries its parameters itself.
    pub(in crate::encoded) fn of_payload(
        plan: &Plan,
        payload: &[u8],
    ) -> Result<(Numbers, Local), EncodedError> {
        let mut bytes = Bytes(payload);
        bytes.take(1)?;
        let count = if plan.permuted { plan.count } else { 0 };
        let permutation = bytes.positions("permutation", count, plan.count)?;
        let square = plan.matrix.saturating_mul(plan.matrix);
        let (forward, inverse) = (bytes.doubles(square)?, bytes.doubles(square)?);
        let outliers = bytes.positions("outlier_indices", plan.outliers, plan.count)?;
        let mut local = Local {
            outliers: bytes.doubles(plan.outliers)?,
            codes: Vec::new(),
        };
        let blocks = plan.blocks() as usize;
        let (mut scales, mut zero_points, mut offsets) = (
            Vec::with_capacity(blocks.min(payload.len())),
            Vec::new(),
            Vec::new(),
        );
        for run in &plan.runs {
            for _ in 0..run.blocks {
                let three = bytes.doubles(3)?;
                scales.push(three[0]);
                zero_points.push(three[1]);
                offsets.push(three[2]);
                local.codes.extend_from_slice(bytes.take(run.code_bytes())?);
            }
        }
        let numbers = Numbers {
            scales,
            zero_points,
            offsets,
            permutation,
            forward,
            inverse,
            outliers,
        };
        Ok((numbers.checked()?, local))
    }

    fn checked(self) -> Result<Numbers, EncodedError> {
        if let Some(scale) = self
            .scales
            .iter()
            .find(|scale| !(**scale > 0.0 && scale.is_finite()))
        {
            let expected = "positive finite numbers";
            return Err(EncodedError::part("scales", expected, scale.to_string()));
        }
        for (part, list) in [
            ("zero_points", &self.zero_points),
            ("offsets", &self.offsets),
            ("forward", &self.forward),
            ("inverse", &self.inverse),
        ] {
            if let Some(number) = list.iter().find(|number| !number.is_finite()) {
                return Err(EncodedError::part(
                    part,
                    "finite numbers",
                    number.to_string(),
                ));
            }
        }
        Ok(self)
    }

    /// The bytes of a value that carries its parameters itself.
    pub(in crate::encoded) fn payload(&self, plan: &Plan, local: &Local) -> Vec<u8> {
        let mut out = vec![0u8];
        let positions = |out: &mut Vec<u8>, list: &[usize]| {
            list.iter()
                .for_each(|&at| out.extend_from_slice(&(at as i64).to_le_bytes()));
        };
        let doubles = |out: &mut Vec<u8>, list: &[f64]| {
            list.iter()
                .for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        };
        positions(&mut out, &self.permutation);
        doubles(&mut out, &self.forward);
        doubles(&mut out, &self.inverse);
        positions(&mut out, &self.outliers);
        doubles(&mut out, &local.outliers);
        for (index, (_, codes)) in blocks(plan, &local.codes).enumerate() {
            doubles(
                &mut out,
                &[
                    self.scales[index],
                    self.zero_points[index],
                    self.offsets[index],
                ],
            );
            out.extend_from_slice(codes);
        }
        out
    }

    /// The codes of numbers.
    pub(in crate::encoded) fn encode(
        &self,
        plan: &Plan,
        values: &[f64],
    ) -> Result<Local, EncodedError> {
        let mut moved = room(values.len())?;
        match self.permutation.as_slice() {
            [] => moved.extend_from_slice(values),
            order => moved.extend(order.iter().map(|&from| values[from])),
        }
        apply(&self.forward, plan.matrix, &mut moved);
        if let Some(value) = moved.iter().find(|value| !value.is_finite()) {
            let expected = "elements that the matrix keeps finite";
            return Err(EncodedError::part("tensor", expected, value.to_string()));
        }
        let bytes = plan
            .runs
            .iter()
            .map(|run| run.blocks as usize * run.code_bytes());
        let mut local = Local {
            outliers: self.outliers.iter().map(|&at| values[at]).collect(),
            codes: room(bytes.sum())?,
        };
        let mut rest = moved.as_slice();
        let mut index = 0;
        for run in &plan.runs {
            let (low, high) = run.range();
            for _ in 0..run.blocks {
                let (block, more) = rest.split_at(run.count.min(rest.len()));
                rest = more;
                let (scale, zero) = (self.scales[index], self.zero_points[index]);
                let start = local.codes.len();
                local.codes.resize(start + run.code_bytes(), 0);
                for (at, value) in block.iter().enumerate() {
                    let steps = (value - self.offsets[index]) / scale;
                    let nearest = steps.clamp(low - zero, high - zero).round_ties_even() + zero;
                    let code = nearest.clamp(low, high).round_ties_even() as i64;
                    put(
                        &mut local.codes[start..],
                        at * run.bits as usize,
                        run.bits,
                        code,
                    );
                }
                index += 1;
            }
        }
        Ok(local)
    }

    /// The numbers that codes stand for.
    pub(in crate::encoded) fn decode(
        &self,
        plan: &Plan,
        local: &Local,
    ) -> Result<Vec<f64>, EncodedError> {
        let mut moved = room(plan.count)?;
        for (index, (run, codes)) in blocks(plan, &local.codes).enumerate() {
            for at in 0..run.count {
                let code = get(codes, at * run.bits as usize, run);
                let steps = code as f64 - self.zero_points[index];
                moved.push(steps * self.scales[index] + self.offsets[index]);
            }
        }
        apply(&self.inverse, plan.matrix, &mut moved);
        let mut values = match self.permutation.as_slice() {
            [] => moved,
            order => {
                let mut values = room(moved.len())?;
                values.resize(moved.len(), 0.0);
                order
                    .iter()
                    .zip(moved)
                    .for_each(|(&to, number)| values[to] = number);
                values
            }
        };
        for (&at, &value) in self.outliers.iter().zip(&local.outliers) {
            values[at] = value;
        }
        Ok(values)
    }
}

/// What a shared value holds itself.
#[derive(Debug)]
pub(in crate::encoded) struct Local {
    outliers: Vec<f64>,
    codes: Vec<u8>,
}

impl Local {
    /// Reads the payload of a local type, whose size was checked.
    pub(in crate::encoded) fn of_payload(
        plan: &Plan,
        payload: &[u8],
    ) -> Result<Local, EncodedError> {
        let mut bytes = Bytes(payload);
        bytes.take(1)?;
        Ok(Local {
            outliers: bytes.doubles(plan.outliers)?,
            codes: bytes.0.to_vec(),
        })
    }

    /// The payload of a local type.
    pub(in crate::encoded) fn payload(&self) -> Vec<u8> {
        let outliers = self.outliers.iter().flat_map(|value| value.to_le_bytes());
        std::iter::once(0)
            .chain(outliers)
            .chain(self.codes.iter().copied())
            .collect()
    }
}

/// Each block with its codes.
fn blocks<'a>(plan: &'a Plan, codes: &'a [u8]) -> impl Iterator<Item = (&'a BlockRun, &'a [u8])> {
    let mut rest = codes;
    let runs = plan
        .runs
        .iter()
        .flat_map(|run| (0..run.blocks).map(move |_| run));
    runs.map(move |run| {
        let (block, more) = rest.split_at(run.code_bytes().min(rest.len()));
        rest = more;
        (run, block)
    })
}

/// Multiplies each run of `side` numbers by a matrix.
fn apply(matrix: &[f64], side: usize, values: &mut [f64]) {
    if side == 0 {
        return;
    }
    let mut out = vec![0.0; side];
    for chunk in values.chunks_exact_mut(side) {
        for (row, slot) in matrix.chunks_exact(side).zip(&mut out) {
            *slot = row.iter().zip(chunk.iter()).map(|(a, b)| a * b).sum();
        }
        chunk.copy_from_slice(&out);
    }
}

/// Writes the low bits of a code at a bit position; the bits there are 0.
fn put(bytes: &mut [u8], at: usize, bits: u32, code: i64) {
    let code = (code as u64 & ((1 << bits) - 1)) << (at % 8);
    for (slot, byte) in bytes[at / 8..].iter_mut().zip(code.to_le_bytes()) {
        *slot |= byte;
    }
}

/// Reads the code at a bit position.
fn get(bytes: &[u8], at: usize, run: &BlockRun) -> i64 {
    let byte = |index: usize| u32::from(bytes.get(index).copied().unwrap_or(0));
    let window = byte(at / 8) | byte(at / 8 + 1) << 8;
    let code = i64::from(window >> (at % 8) & ((1 << run.bits) - 1));
    if run.signed && code >> (run.bits - 1) != 0 {
        code - (1 << run.bits)
    } else {
        code
    }
}

/// What is left of a payload.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], EncodedError> {
        let Some((head, rest)) = self.0.split_at_checked(len) else {
            let got = format!("{} more", self.0.len());
            return Err(EncodedError::part(
                "payload",
                format!("{len} more bytes"),
                got,
            ));
        };
        self.0 = rest;
        Ok(head)
    }

    fn words(
        &mut self,
        count: usize,
    ) -> Result<impl Iterator<Item = [u8; 8]> + use<'a>, EncodedError> {
        let words = self.take(count.saturating_mul(8))?.as_chunks::<8>().0;
        Ok(words.iter().copied())
    }

    fn doubles(&mut self, count: usize) -> Result<Vec<f64>, EncodedError> {
        Ok(self.words(count)?.map(f64::from_le_bytes).collect())
    }

    fn positions(
        &mut self,
        part: &'static str,
        count: usize,
        elements: usize,
    ) -> Result<Vec<usize>, EncodedError> {
        let numbers = self.words(count)?.map(i64::from_le_bytes);
        distinct(part, numbers, elements)
    }
}

/// The numbers of a role: none, or exactly as many as are asked for.
fn numbers(
    set: &ParameterSet,
    role: Role,
    part: &'static str,
    count: usize,
    otherwise: Option<f64>,
) -> Result<Vec<f64>, EncodedError> {
    let Some(tensor) = set.tensor(role) else {
        return match otherwise {
            Some(number) => Ok(vec![number; count]),
            None if count == 0 => Ok(Vec::new()),
            None => Err(EncodedError::part(part, format!("{count} numbers"), "none")),
        };
    };
    let bytes = sized(tensor, part, count)?;
    let dtype = tensor.dtype();
    Ok((0..count)
        .map(|index| number_at(bytes, dtype, index))
        .collect())
}

fn sized<'t>(
    tensor: &'t Tensor,
    part: &'static str,
    count: usize,
) -> Result<&'t [u8], EncodedError> {
    const NUMBERS: [DType; 15] = [
        DType::Float,
        DType::Double,
        DType::Float16,
        DType::Bfloat16,
        DType::Int64,
        DType::Int32,
        DType::Int16,
        DType::Uint16,
        DType::Int8,
        DType::Uint8,
        DType::Int4,
        DType::Uint4,
        DType::Int2,
        DType::Uint2,
        DType::Uint32,
    ];
    match tensor.as_bytes() {
        Some(bytes) if tensor.elements() == count && NUMBERS.contains(&tensor.dtype()) => Ok(bytes),
        _ => Err(EncodedError::part(
            part,
            format!("{count} numbers"),
            format!("{}{:?}", tensor.dtype(), tensor.shape()),
        )),
    }
}

/// The positions of a role: INT64, within the elements, none twice.
fn positions(
    set: &ParameterSet,
    role: Role,
    part: &'static str,
    count: usize,
    elements: usize,
) -> Result<Vec<usize>, EncodedError> {
    let Some(tensor) = set.tensor(role) else {
        return match count {
            0 => Ok(Vec::new()),
            _ => Err(EncodedError::part(
                part,
                format!("{count} positions"),
                "none",
            )),
        };
    };
    let bytes = sized(tensor, part, count)?;
    if tensor.dtype() != DType::Int64 {
        return Err(EncodedError::part(part, "INT64", tensor.dtype().name()));
    }
    let numbers = bytes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|word| i64::from_le_bytes(*word));
    distinct(part, numbers, elements)
}

/// Positions below the number of elements, none twice. Memory is that of the positions: a type may claim any number of
/// elements.
fn distinct(
    part: &'static str,
    numbers: impl Iterator<Item = i64>,
    elements: usize,
) -> Result<Vec<usize>, EncodedError> {
    let mut out = Vec::new();
    for number in numbers {
        let Some(at) = usize::try_from(number).ok().filter(|&at| at < elements) else {
            let expected = format!("positions below {elements}");
            return Err(EncodedError::part(part, expected, number.to_string()));
        };
        out.push(at);
    }
    let mut sorted = out.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(out),
        Some(pair) => {
            let got = format!("{} for the second time", pair[0]);
            Err(EncodedError::part(part, "each position once", got))
        }
    }
}

/// An empty list with room for `count` elements.
fn room<T>(count: usize) -> Result<Vec<T>, EncodedError> {
    let mut list = Vec::new();
    list.try_reserve_exact(count).map_err(|_| {
        let requested = count.saturating_mul(size_of::<T>());
        TensorError::from(AllocError::Exhausted { requested })
    })?;
    Ok(list)
}
