//! From FLOAT rows to payloads.

use super::{Parameters, QuantizeError, Storage};
use half::{bf16, f16};
use refeed_values::encoded::{Affine, CODES, EncodedError, code_range, parameter_shape};
use refeed_values::{DType, Element, EncodedValue, Extent, RuntimeValue, TensorMut};

/// Rows `[batch, heads, rows, width]`, dense; of each slice, some consecutive rows are meant.
///
/// ```
/// use refeed_kernels::quantize::Rows;
/// let numbers: Vec<f32> = (0..12).map(|x| x as f32).collect();
/// // Of [1, 2, 3, 2], the second and third row of each head.
/// let rows = Rows::new(&numbers, [1, 2, 3, 2])?.range(1, 2)?;
/// assert_eq!((rows.row(0, 0), rows.row(1, 1)), (&[2.0, 3.0][..], &[10.0, 11.0][..]));
/// # Ok::<(), refeed_kernels::quantize::QuantizeError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    values: &'a [f32],
    extents: [usize; 4],
    first: usize,
    length: usize,
}

impl<'a> Rows<'a> {
    /// All rows.
    ///
    /// # Errors
    /// When the values are not as many as the extents say.
    pub fn new(values: &'a [f32], extents: [usize; 4]) -> Result<Rows<'a>, QuantizeError> {
        let elements = Extent::new(DType::Float, &extents)
            .map_err(EncodedError::from)?
            .elements();
        if values.len() != elements {
            let expected = format!("{elements} numbers, as {extents:?} has");
            return Err(QuantizeError::part("rows", expected, values.len()));
        }
        Ok(Rows {
            values,
            extents,
            first: 0,
            length: extents[2],
        })
    }

    /// `length` of these rows, from `first` on.
    ///
    /// # Errors
    /// When there are not as many.
    pub fn range(&self, first: usize, length: usize) -> Result<Rows<'a>, QuantizeError> {
        if first > self.length || length > self.length - first {
            let expected = format!("rows of {}", self.length);
            let got = format!("{length} from {first} on");
            return Err(QuantizeError::part("rows", expected, got));
        }
        Ok(Rows {
            first: self.first + first,
            length,
            ..*self
        })
    }

    /// Rows of each slice.
    pub fn length(&self) -> usize {
        self.length
    }

    /// One row; `slice` counts batch rows and heads together.
    ///
    /// # Panics
    /// When there is no such slice or row.
    pub fn row(&self, slice: usize, row: usize) -> &'a [f32] {
        let [_, _, rows, width] = self.extents;
        let at = (slice * rows + self.first + row) * width;
        &self.values[at..at + width]
    }
}

/// How a number is divided by the scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Division {
    /// In f32, as QuantizeLinear does for FLOAT scales: the quotient is rounded before it is rounded to a code.
    Single,
    /// In f64.
    Double,
}

/// The code of a number: ties to even, clamped to the range of the codes. NaN has none and gives the zero point.
///
/// ```
/// use refeed_kernels::quantize::{Division, quantize};
/// let codes = [0.5, 1.5, 2.5, 3.5, 1e30].map(|x| quantize(x, 1.0, 0, (-8, 7), Division::Double));
/// assert_eq!(codes, [0, 2, 2, 4, 7]);
/// ```
#[inline]
pub fn quantize(x: f32, scale: f64, zero: i32, (low, high): (i32, i32), division: Division) -> i32 {
    let quotient = match division {
        Division::Single => f64::from(x / scale as f32),
        Division::Double => f64::from(x) / scale,
    };
    let known = if quotient.is_nan() { 0.0 } else { quotient };
    let steps = known.clamp(f64::from(low - zero), f64::from(high - zero));
    nearest(steps) + zero
}

/// The nearest whole number of one within i32, ties to even. Between 2^52 and 2^53 the numbers of f64 are the whole ones, so
/// the sum is rounded as it is made, and its low bits are the number. Not every processor has an instruction that rounds, and
/// calls cost more than the rest of a code.
#[inline]
fn nearest(x: f64) -> i32 {
    const PAST: f64 = 1.5 * (1u64 << 52) as f64;
    (x + PAST).to_bits() as i32
}

/// A payload of these rows with room for `capacity` of them. Rows past them hold what 0 is in the format.
///
/// Memory comes from `allocate`, told an element type and extents; whatever is in it is overwritten.
///
/// ```
/// use refeed_kernels::quantize::{Division, Format, QuantizeError, Rows, encode};
/// use refeed_values::{Allocator, DType, TensorMut};
/// let rows = Rows::new(&[-1.3, -0.4, 0.3, 1.2], [1, 1, 1, 4])?;
/// let int4 = Format::affine(DType::Int4, 0.25, 0).storage()?;
/// let memory = Allocator::default();
/// let page = encode(&rows, 2, &int4, Division::Single, |dtype, shape| {
///     Ok::<_, QuantizeError>(TensorMut::new(&memory, dtype, shape)?)
/// })?;
/// let codes = page.encoded().unwrap();
/// assert_eq!(codes.shape(), [1, 1, 2, 4]);
/// // -5, -2, 1, 5 and four zeros.
/// assert_eq!(codes.payload().as_bytes(), Some(&[0xEB, 0x51, 0, 0][..]));
/// # Ok::<(), QuantizeError>(())
/// ```
///
/// # Errors
/// When there are more rows than room, a number is not finite, or beyond the largest of a dense format, the parameters are
/// not those of the payload's extents, or memory cannot be had.
pub fn encode<E: From<QuantizeError>>(
    rows: &Rows<'_>,
    capacity: usize,
    to: &Storage,
    division: Division,
    allocate: impl FnOnce(DType, &[usize]) -> Result<TensorMut, E>,
) -> Result<RuntimeValue, E> {
    let [batch, heads, _, width] = rows.extents;
    let extents = [batch, heads, capacity, width];
    if rows.length > capacity {
        let expected = format!("at most {capacity} rows");
        return Err(QuantizeError::part("rows", expected, rows.length).into());
    }
    check_finite(rows)?;
    match to {
        Storage::Dense(dtype) => {
            let mut out = allocate(*dtype, &extents)?;
            match dtype {
                DType::Float => dense(rows, capacity, &mut out, |x| x),
                DType::Float16 => dense(rows, capacity, &mut out, f16::from_f32),
                DType::Bfloat16 => dense(rows, capacity, &mut out, bf16::from_f32),
                other => {
                    let expected = "FLOAT, FLOAT16 or BFLOAT16";
                    Err(QuantizeError::part("storage type", expected, other))
                }
            }?;
            Ok(out.freeze().into())
        }
        Storage::Affine(affine) => {
            // Before anything is allocated or packed: the value is checked again when it is made.
            check_layout(affine, extents)?;
            let bytes = Extent::new(affine.storage, &extents)
                .map_err(|source| QuantizeError::Encoded(source.into()))?
                .bytes();
            let mut out = allocate(DType::Uint8, &[bytes])?;
            codes(rows, extents, affine, division, out.as_mut_bytes());
            let logical = (DType::Float, &extents[..]);
            let value = EncodedValue::affine(affine.clone(), logical, out.freeze());
            Ok(value.map_err(QuantizeError::Encoded)?.into())
        }
    }
}

fn slices(extents: [usize; 4]) -> usize {
    extents[0] * extents[1]
}

fn check_finite(rows: &Rows<'_>) -> Result<(), QuantizeError> {
    for slice in 0..slices(rows.extents) {
        for row in 0..rows.length {
            let row_values = rows.row(slice, row);
            // All without a jump, for which a processor has instructions.
            let finite = row_values.iter().map(|x| x.is_finite());
            if finite.fold(true, |all, own| all & own) {
                continue;
            }
            if let Some(column) = row_values.iter().position(|x| !x.is_finite()) {
                return Err(not_held(rows, slice, row, column, "a finite number"));
            }
        }
    }
    Ok(())
}

/// A number that cannot be kept, and where it stands among the rows that are meant.
fn not_held(
    rows: &Rows<'_>,
    slice: usize,
    row: usize,
    column: usize,
    expected: &str,
) -> QuantizeError {
    let heads = rows.extents[1];
    let (batch, head) = (slice / heads, slice % heads);
    let expected = format!("{expected} at [{batch}, {head}, {row}, {column}]");
    QuantizeError::part("rows", expected, rows.row(slice, row)[column])
}

fn dense<T: Element + Default + Into<f32>>(
    rows: &Rows<'_>,
    capacity: usize,
    out: &mut TensorMut,
    narrow: fn(f32) -> T,
) -> Result<(), QuantizeError> {
    let width = rows.extents[3];
    let out = out.as_mut_slice::<T>()?;
    if width == 0 {
        return Ok(());
    }
    for (at, slots) in out.chunks_exact_mut(width).enumerate() {
        let (slice, row) = (at / capacity, at % capacity);
        if row >= rows.length {
            slots.fill(T::default());
            continue;
        }
        for (column, (slot, &x)) in slots.iter_mut().zip(rows.row(slice, row)).enumerate() {
            *slot = narrow(x);
            let kept: f32 = (*slot).into();
            if !kept.is_finite() {
                let expected = format!("a number within {}", T::DTYPE);
                return Err(not_held(rows, slice, row, column, &expected));
            }
        }
    }
    Ok(())
}

/// Codes are of 2, 4 or 8 bits; scales FLOAT, as many as the extents ask for, positive and finite.
fn check_layout(affine: &Affine, extents: [usize; 4]) -> Result<(), QuantizeError> {
    if !CODES.contains(&affine.storage) {
        let expected = "an integer type of 2, 4 or 8 bits";
        return Err(QuantizeError::part(
            "storage type",
            expected,
            affine.storage,
        ));
    }
    if affine.scale.dtype() != DType::Float {
        let got = affine.scale.dtype();
        return Err(QuantizeError::part("scale", "elements of FLOAT", got));
    }
    let shape = parameter_shape(&extents, affine.axis, affine.block_size)?;
    if affine.scale.shape() != &shape[..] {
        let expected = format!("shape {:?}", &shape[..]);
        let got = format!("{:?}", affine.scale.shape());
        return Err(QuantizeError::part("scale", expected, got));
    }
    match affine.unfit_scale() {
        None => Ok(()),
        Some((index, scale)) => {
            let got = format!("{scale} at {index}");
            Err(QuantizeError::part("scale", "positive finite numbers", got))
        }
    }
}

/// Writes the codes of all rows of the capacity, packed.
fn codes(
    rows: &Rows<'_>,
    extents: [usize; 4],
    affine: &Affine,
    division: Division,
    out: &mut [u8],
) {
    let [_, _, capacity, width] = extents;
    let parameters = Parameters::of(affine, extents);
    let range = code_range(affine.storage);
    let mut packed = Packed {
        bits: affine.storage.bits(),
        byte: 0,
        used: 0,
        out: out.iter_mut(),
    };
    for slice in 0..slices(extents) {
        for row in 0..capacity {
            let base = parameters.row(slice, row);
            let numbers = (row < rows.length).then(|| rows.row(slice, row));
            if let (Some(numbers), true) = (numbers, parameters.one_a_row()) {
                let (zero, scale) = (affine.zero_point_at(base), affine.scale_at(base));
                let mut codes = [0; 64];
                for numbers in numbers.chunks(codes.len()) {
                    for (code, x) in codes.iter_mut().zip(numbers) {
                        *code = quantize(*x, scale, zero, range, division);
                    }
                    let made = codes.iter().take(numbers.len());
                    made.for_each(|code| packed.push(*code));
                }
                continue;
            }
            let mut parameter = base;
            let (mut zero, mut scale) = (affine.zero_point_at(base), affine.scale_at(base));
            for column in 0..width {
                let own = base + parameters.column(column);
                if own != parameter {
                    parameter = own;
                    (zero, scale) = (affine.zero_point_at(own), affine.scale_at(own));
                }
                packed.push(match numbers {
                    Some(numbers) => quantize(numbers[column], scale, zero, range, division),
                    None => zero,
                });
            }
        }
    }
    packed.finish();
}

/// Codes on their way into bytes, the first in the low bits.
struct Packed<'o> {
    bits: usize,
    byte: u8,
    used: usize,
    out: std::slice::IterMut<'o, u8>,
}

impl Packed<'_> {
    #[inline]
    fn push(&mut self, code: i32) {
        // The low bits of two's complement are the code.
        let mask = u8::MAX >> (8 - self.bits);
        self.byte |= (code.to_le_bytes()[0] & mask) << self.used;
        self.used += self.bits;
        if self.used == 8 {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if let Some(slot) = self.out.next() {
            *slot = self.byte;
        }
        (self.byte, self.used) = (0, 0);
    }

    fn finish(mut self) {
        if self.used > 0 {
            self.flush();
        }
    }
}
