//! Affine encodings: `real = scale * (code - zero_point)`, with one scale, one a slice along an axis, or one a block.
//!
//! Codes are packed as ONNX packs them: element 0 in the low bits of byte 0, two's complement for the signed types.

use super::EncodedError;
use crate::layout::Dims;
use crate::{Allocator, DType, Extent, Tensor, TensorMut};

/// The types that codes can be of.
pub const CODES: [DType; 6] = [
    DType::Int8,
    DType::Uint8,
    DType::Int4,
    DType::Uint4,
    DType::Int2,
    DType::Uint2,
];

/// The types that scales can be of.
pub const SCALES: [DType; 4] = [DType::Float, DType::Float16, DType::Double, DType::Bfloat16];

/// How the codes of a quantised tensor become numbers: `(code - zero point) * scale`.
#[derive(Debug, Clone)]
pub struct Affine {
    /// Element type of the codes: one of [`CODES`].
    pub storage: DType,
    /// Whether the file states only the sign of the codes, and their width follows from the payload's size.
    pub inferred: bool,
    /// Of a type of [`SCALES`] and the shape that [`parameter_shape`] gives.
    pub scale: Tensor,
    /// Of the scale's shape and the storage's type; absent means 0.
    pub zero_point: Option<Tensor>,
    /// The axis that the parameters vary along, counted from the front; absent for one scale a tensor.
    pub axis: Option<usize>,
    /// Elements of `axis` that share a parameter, when they come in blocks.
    pub block_size: Option<usize>,
}

impl Affine {
    /// One scale for the whole tensor, zero point 0.
    pub fn per_tensor(storage: DType, scale: Tensor) -> Affine {
        Affine {
            storage,
            inferred: false,
            scale,
            zero_point: None,
            axis: None,
            block_size: None,
        }
    }

    /// Holds the parameters to the shape of what is encoded, and the codes to their size.
    pub(super) fn check(&self, shape: &[usize], codes: &[u8]) -> Result<(), EncodedError> {
        if !CODES.contains(&self.storage) {
            return Err(EncodedError::part(
                "storage type",
                "an integer type of 2, 4 or 8 bits",
                self.storage.name(),
            ));
        }
        let extent = Extent::new(self.storage, shape)?;
        if codes.len() != extent.bytes() {
            return Err(EncodedError::part(
                "payload",
                format!(
                    "{} bytes, as {}{shape:?} takes",
                    extent.bytes(),
                    self.storage
                ),
                codes.len().to_string(),
            ));
        }
        if self.inferred {
            infer_storage(self.storage_is_signed(), shape, codes.len())?;
        }
        if let Some(last) = stray_bits(codes, self.storage, extent.elements()) {
            return Err(EncodedError::part(
                "payload",
                "0 in the bits past the last code",
                format!("{last:#010b} in the last byte"),
            ));
        }
        let parameters = parameter_shape(shape, self.axis, self.block_size)?;
        check_parameter(&self.scale, "scale", &SCALES, &parameters)?;
        match &self.zero_point {
            Some(zero) => check_parameter(zero, "zero_point", &[self.storage], &parameters),
            None => Ok(()),
        }
    }

    /// Whether codes are two's complement.
    pub fn storage_is_signed(&self) -> bool {
        is_signed(self.storage)
    }

    /// Number of parameters.
    pub fn parameters(&self) -> usize {
        self.scale.elements()
    }

    /// Scale number `index`, row by row; 0 past the last.
    pub fn scale_at(&self, index: usize) -> f64 {
        let Some(bytes) = self.scale.as_bytes() else {
            return 0.0;
        };
        number_at(bytes, self.scale.dtype(), index)
    }

    /// Zero point number `index`, row by row.
    pub fn zero_point_at(&self, index: usize) -> i32 {
        let Some(bytes) = self.zero_point.as_ref().and_then(Tensor::as_bytes) else {
            return 0;
        };
        code(bytes, self.storage, index)
    }

    /// The first scale that is not a positive finite number, with its position: such a page could not be attended to.
    pub fn unfit_scale(&self) -> Option<(usize, f64)> {
        (0..self.parameters())
            .map(|index| (index, self.scale_at(index)))
            .find(|(_, scale)| !(*scale > 0.0 && scale.is_finite()))
    }

    /// Decodes every element. The layout was checked.
    pub(super) fn decode(
        &self,
        shape: &[usize],
        codes: &[u8],
        allocator: &Allocator,
    ) -> Result<Tensor, EncodedError> {
        let mut out = TensorMut::new(allocator, DType::Float, shape)?;
        let slots = out.as_mut_slice::<f32>()?;
        let which = ParameterIndex::new(shape, self.axis, self.block_size);
        for (index, slot) in slots.iter_mut().enumerate() {
            let parameter = which.of(index);
            let code = code(codes, self.storage, index) - self.zero_point_at(parameter);
            *slot = (f64::from(code) * self.scale_at(parameter)) as f32;
        }
        Ok(out.freeze())
    }
}

/// Which parameter an element goes by.
struct ParameterIndex {
    /// Elements between neighbours along the axis.
    inner: usize,
    /// Extent of the axis.
    extent: usize,
    /// Parameters along the axis.
    parameters: usize,
    block: usize,
    /// Whether outer and inner coordinates have parameters of their own.
    blocked: bool,
}

impl ParameterIndex {
    fn new(shape: &[usize], axis: Option<usize>, block: Option<usize>) -> ParameterIndex {
        let (inner, extent) = match axis {
            Some(axis) => (shape[axis + 1..].iter().product(), shape[axis]),
            None => (1, 1),
        };
        let size = block.unwrap_or(1);
        ParameterIndex {
            inner,
            extent,
            parameters: extent.div_ceil(size),
            block: size,
            blocked: block.is_some(),
        }
    }

    fn of(&self, element: usize) -> usize {
        if self.extent <= 1 && !self.blocked {
            return 0;
        }
        let along = element / self.inner % self.extent / self.block;
        if !self.blocked {
            return along;
        }
        let outer = element / self.inner / self.extent;
        (outer * self.parameters + along) * self.inner + element % self.inner
    }
}

/// The shape of the scales of a tensor: none, the extent of the axis, or the tensor's with blocks along the axis.
///
/// ```
/// use refeed_values::encoded::parameter_shape;
/// assert_eq!(&parameter_shape(&[3, 5], None, None).unwrap()[..], []);
/// assert_eq!(&parameter_shape(&[3, 5], Some(1), None).unwrap()[..], [5]);
/// assert_eq!(&parameter_shape(&[3, 5], Some(1), Some(2)).unwrap()[..], [3, 3]);
/// ```
///
/// # Errors
/// When the axis is not one of the shape's, or blocks have no axis or size.
pub fn parameter_shape(
    shape: &[usize],
    axis: Option<usize>,
    block_size: Option<usize>,
) -> Result<Dims, EncodedError> {
    let Some(axis) = axis else {
        return match block_size {
            None => Ok(Dims::new()),
            Some(_) => Err(EncodedError::part(
                "axis",
                "an axis beside block_size",
                "none",
            )),
        };
    };
    let Some(&extent) = shape.get(axis) else {
        return Err(EncodedError::part(
            "axis",
            format!("an axis of {} dimensions", shape.len()),
            axis.to_string(),
        ));
    };
    match block_size {
        None => Ok(Dims::from_slice(&[extent])),
        Some(0) => Err(EncodedError::part("block_size", "1 or more", "0")),
        Some(block) => {
            let mut parameters = Dims::from_slice(shape);
            parameters[axis] = extent.div_ceil(block);
            Ok(parameters)
        }
    }
}

/// The one code type of a sign that makes `shape` take `bytes` bytes.
///
/// ```
/// use refeed_values::{DType, encoded::infer_storage};
/// assert_eq!(infer_storage(false, &[8], 4).unwrap(), DType::Uint4);
/// // One element takes one byte in every width.
/// assert!(infer_storage(true, &[1], 1).is_err());
/// ```
///
/// # Errors
/// When no width fits, or several do.
pub fn infer_storage(signed: bool, shape: &[usize], bytes: usize) -> Result<DType, EncodedError> {
    let mut fitting = CODES.into_iter().filter(|&codes| {
        is_signed(codes) == signed
            && Extent::new(codes, shape).is_ok_and(|extent| extent.bytes() == bytes)
    });
    let names = match (fitting.next(), fitting.next()) {
        (Some(one), None) => return Ok(one),
        (None, _) => "none".to_string(),
        (Some(one), Some(two)) => fitting.fold(format!("{one} and {two}"), |text, more| {
            format!("{text} and {more}")
        }),
    };
    Err(EncodedError::part(
        "signed_storage",
        format!("one code width that makes {shape:?} take {bytes} bytes"),
        names,
    ))
}

/// Code number `index` of packed codes of 2, 4 or 8 bits; 0 past the last byte.
///
/// ```
/// use refeed_values::{DType, encoded::code};
/// let bytes = [0b11_10_01_00];
/// let codes: Vec<i32> = (0..4).map(|index| code(&bytes, DType::Int2, index)).collect();
/// assert_eq!(codes, [0, 1, -2, -1]);
/// ```
pub fn code(bytes: &[u8], storage: DType, index: usize) -> i32 {
    let width = storage.bits().clamp(1, 8);
    let a_byte = 8 / width;
    let byte = bytes.get(index / a_byte).copied().unwrap_or(0);
    let mask = (1i32 << width) - 1;
    let code = (i32::from(byte) >> (width * (index % a_byte))) & mask;
    if is_signed(storage) && code >> (width - 1) != 0 {
        code - (mask + 1)
    } else {
        code
    }
}

/// The smallest and the largest code of a type.
pub fn code_range(storage: DType) -> (i32, i32) {
    let width = storage.bits().clamp(1, 8);
    if is_signed(storage) {
        (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    } else {
        (0, (1 << width) - 1)
    }
}

fn is_signed(storage: DType) -> bool {
    matches!(storage, DType::Int8 | DType::Int4 | DType::Int2)
}

/// The last byte, when a bit past the last code is set in it.
fn stray_bits(codes: &[u8], storage: DType, elements: usize) -> Option<u8> {
    let used = elements % (8 / storage.bits()) * storage.bits();
    let last = *codes.last()?;
    (used != 0 && last >> used != 0).then_some(last)
}

fn check_parameter(
    tensor: &Tensor,
    part: &'static str,
    types: &[DType],
    shape: &[usize],
) -> Result<(), EncodedError> {
    if !types.contains(&tensor.dtype()) {
        let names: Vec<&str> = types.iter().map(|dtype| dtype.name()).collect();
        return Err(EncodedError::part(
            part,
            names.join(", "),
            tensor.dtype().name(),
        ));
    }
    if tensor.shape() != shape || tensor.as_bytes().is_none() {
        return Err(EncodedError::part(
            part,
            format!("shape {shape:?}, dense"),
            format!("{:?}, strides {:?}", tensor.shape(), tensor.strides()),
        ));
    }
    Ok(())
}

/// Number `index` of little-endian numbers, which need not be aligned: of a type of [`SCALES`] or [`CODES`], or a wider
/// integer that parameters may be of. 0 past the last, and for other types.
pub fn number_at(bytes: &[u8], dtype: DType, index: usize) -> f64 {
    fn at<const N: usize>(bytes: &[u8], index: usize) -> [u8; N] {
        let start = index.saturating_mul(N);
        let found = bytes.get(start..start.saturating_add(N));
        found.and_then(|run| run.try_into().ok()).unwrap_or([0; N])
    }
    match dtype {
        DType::Float => f64::from(f32::from_le_bytes(at(bytes, index))),
        DType::Float16 => half::f16::from_le_bytes(at(bytes, index)).to_f64(),
        DType::Bfloat16 => half::bf16::from_le_bytes(at(bytes, index)).to_f64(),
        DType::Double => f64::from_le_bytes(at(bytes, index)),
        DType::Int64 => i64::from_le_bytes(at(bytes, index)) as f64,
        DType::Int32 => f64::from(i32::from_le_bytes(at(bytes, index))),
        DType::Int16 => f64::from(i16::from_le_bytes(at(bytes, index))),
        DType::Uint16 => f64::from(u16::from_le_bytes(at(bytes, index))),
        DType::Uint32 => f64::from(u32::from_le_bytes(at(bytes, index))),
        dtype if CODES.contains(&dtype) => f64::from(code(bytes, dtype, index)),
        _ => 0.0,
    }
}
