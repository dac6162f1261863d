//! Which plan a struct type has: its fields by position.

use super::{AFFINE, BlockRun, PROFILE, Plan};
use crate::DType;
use crate::encoded::EncodedError;
use crate::encoded::struct_type::{Field, FieldContent, StorageType, StructKind, StructType};
use std::sync::Arc;

impl Plan {
    /// Reads the plan of a struct type.
    ///
    /// # Errors
    /// [`EncodedError::Unsupported`] when the type is of no profile, or of one that is not affine;
    /// [`EncodedError::Part`] when it has the name of a profile and not its fields.
    pub fn of(declared: &StructType) -> Result<Plan, EncodedError> {
        let Some(name) = declared.name().filter(|name| name.starts_with(PROFILE)) else {
            let what = match declared.name() {
                Some(name) => format!("a storage type named `{}`", name.escape_debug()),
                None => "a storage type without a name".to_string(),
            };
            return Err(EncodedError::Unsupported { what });
        };
        let fields = declared.fields().unwrap_or_default();
        let [
            reserved,
            permutation,
            forward,
            inverse,
            indices,
            values,
            blocks,
        ] = fields
        else {
            let got = format!("{} fields", fields.len());
            return Err(EncodedError::part(
                "storage_type",
                "the 7 fields of a profile",
                got,
            ));
        };
        if elements(reserved, DType::Uint8)? != 1 {
            return Err(EncodedError::part("reserved", "one byte", "another number"));
        }
        let permuted = elements(permutation, DType::Int64)?;
        let side = side(forward)?;
        let outliers = elements(indices, DType::Int64)?;
        if self::side(inverse)? != side || elements(values, DType::Double)? != outliers {
            return Err(EncodedError::part(
                "storage_type",
                "as many inverse as forward numbers, and a value an outlier",
                "another number",
            ));
        }
        let runs = read_runs(blocks)?;
        let count = runs.iter().fold(0usize, |count, run| {
            let more = usize::try_from(run.blocks).unwrap_or(usize::MAX);
            count.saturating_add(more.saturating_mul(run.count))
        });
        if permuted != 0 && permuted != count {
            return Err(EncodedError::part(
                "permutation",
                format!("none or {count} elements"),
                permuted.to_string(),
            ));
        }
        Plan {
            name: Arc::clone(name),
            count,
            permuted: permuted != 0,
            matrix: side,
            outliers,
            runs,
        }
        .checked()
    }
}

/// The shape of a field of elements of one type.
fn shape(field: &Field, dtype: DType) -> Result<&[usize], EncodedError> {
    match &field.content {
        FieldContent::Type(StorageType::Tensor { dtype: got, shape }) if *got == dtype => Ok(shape),
        _ => Err(EncodedError::part(
            "storage_type",
            format!("a field of {dtype}"),
            format!("`{}`, which is of another type", field.name.escape_debug()),
        )),
    }
}

fn elements(field: &Field, dtype: DType) -> Result<usize, EncodedError> {
    // Counted without overflow when the type was made.
    Ok(shape(field, dtype)?.iter().product())
}

/// The side of a square of numbers; 0 for none.
fn side(field: &Field) -> Result<usize, EncodedError> {
    match shape(field, DType::Double)? {
        [a, b] if a == b => Ok(*a),
        none if none.contains(&0) => Ok(0),
        other => Err(EncodedError::part(
            "storage_type",
            "a square matrix or none",
            format!("{other:?}"),
        )),
    }
}

/// A constant of INT64.
fn integers(field: &Field) -> Result<Vec<i64>, EncodedError> {
    match &field.content {
        FieldContent::Constant(tensor) => Ok(tensor.view::<i64>()?.to_vec()),
        FieldContent::Type(_) => Err(EncodedError::part(
            "storage_type",
            "a constant of INT64",
            format!("`{}`, which is a type", field.name.escape_debug()),
        )),
    }
}

fn structure(field: &Field) -> Result<&StructType, EncodedError> {
    match &field.content {
        FieldContent::Type(StorageType::Struct(inner)) => Ok(inner),
        _ => Err(EncodedError::part(
            "storage_type",
            "a field of struct type",
            format!("`{}`, which is none", field.name.escape_debug()),
        )),
    }
}

fn read_runs(blocks: &Field) -> Result<Box<[BlockRun]>, EncodedError> {
    let fields = structure(blocks)?.fields().unwrap_or_default();
    let Some((total, arrays)) = fields.split_first() else {
        return Err(EncodedError::part(
            "blocks",
            "a constant and runs",
            "no field",
        ));
    };
    let total = integers(total)?;
    let mut first = 0u64;
    let mut runs = Vec::with_capacity(arrays.len());
    for array in arrays {
        let expected = format!("run_{first}");
        if *array.name != *expected {
            let got = format!("`{}`", array.name.escape_debug());
            return Err(EncodedError::part("blocks", expected, got));
        }
        let StructKind::Array {
            element: StorageType::Struct(block),
            dimension,
        } = structure(array)?.kind()
        else {
            return Err(EncodedError::part("blocks", "an array of blocks", expected));
        };
        let run = read_block(block, *dimension)?;
        first = first.saturating_add(*dimension);
        runs.push(run);
    }
    if total != [i64::try_from(first).unwrap_or(-1)] {
        let expected = format!("{first} blocks, as the runs have");
        return Err(EncodedError::part("blocks", expected, format!("{total:?}")));
    }
    Ok(runs.into())
}

fn read_block(block: &StructType, blocks: u64) -> Result<BlockRun, EncodedError> {
    let fields = block.fields().unwrap_or_default();
    let [layout, scale, zero_point, offset, codebook, codes] = fields else {
        let got = format!("{} fields", fields.len());
        return Err(EncodedError::part("block", "the 6 fields of a block", got));
    };
    let layout = integers(layout)?;
    let [count, method, bits, signed, _, _, _, base3, _] = layout[..] else {
        let got = format!("{} numbers", layout.len());
        return Err(EncodedError::part("block", "9 numbers", got));
    };
    let unsupported = |what: &str| EncodedError::Unsupported {
        what: format!("a block of {what}"),
    };
    match (method, base3) {
        (AFFINE, 0) => {}
        (AFFINE, _) => return Err(unsupported("base-3 codes")),
        (1, _) => return Err(unsupported("codebooks")),
        (2, _) => return Err(unsupported("casts")),
        (other, _) => {
            let got = other.to_string();
            return Err(EncodedError::part("block", "method 0, 1 or 2", got));
        }
    }
    for field in [scale, zero_point, offset] {
        if elements(field, DType::Double)? != 1 {
            let expected = "one scale, zero point and offset";
            return Err(EncodedError::part("block", expected, "another number"));
        }
    }
    let run = match (usize::try_from(count), u32::try_from(bits)) {
        (Ok(count), Ok(bits)) if (1..=8).contains(&bits) && count > 0 => BlockRun {
            blocks,
            count,
            bits,
            signed: signed != 0,
        },
        _ => {
            let got = format!("{count} elements of {bits} bits");
            return Err(EncodedError::part("block", "elements of 1 to 8 bits", got));
        }
    };
    let bytes = run
        .count
        .checked_mul(run.bits as usize)
        .map(|bits| bits.div_ceil(8));
    if bytes != Some(elements(codes, DType::Uint8)?) || elements(codebook, DType::Double)? != 0 {
        let expected = "as many bytes of codes as the elements take, and no codebook";
        return Err(EncodedError::part("block", expected, "another number"));
    }
    Ok(run)
}
