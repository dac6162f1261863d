//! Products with weights that a graph dequantizes: `MatMul(x, DequantizeLinear(codes, scale, zero_point))`, the form that
//! exporters of quantized models write. The codes are packed anew, column by column, when the session is built, and the
//! product reads them as they are, like that of `MatMulNBits`.
//!
//! Only where all that is dequantized is known before the first run, and nobody but products reads it as their right
//! operand. Elsewhere it is computed once, within the limit of folding, or in each call.

use crate::kernel::{Kernel, Slot};
use crate::ops::PackedMatMul;
use crate::plan::fold::Folding;
use crate::plan::form::Form;
use crate::plan::scope::Scope;
use refeed_kernels::matmul::nbits::{Repacked, RowCodes, repack};
use refeed_values::{DType, RuntimeValue, Tensor, View};
use std::collections::HashMap;
use std::sync::Arc;

/// Whether a node dequantizes what may be weights of a product: then it is not folded before all of its readers are known.
pub(super) fn may_be_weights(form: &Form, inputs: &[Option<RuntimeValue>]) -> bool {
    let codes = inputs.first().and_then(|value| value.as_ref()?.tensor());
    matches!(form, Form::DequantizeLinear { .. })
        && codes.is_some_and(|codes| codes.rank() == 2 && codes.elements() > 0)
}

/// Gives products with dequantized weights the packed codes, and folds what was held back for nothing.
pub(super) fn pack(scope: &mut Scope<'_>, outputs: &[Slot], folding: &Folding) {
    let held = |form: &Form| matches!(form, Form::DequantizeLinear { .. });
    if !scope.steps.iter().any(|step| held(&step.form)) {
        return;
    }
    // Readers as the right operand of a product, by slot; `None` where there is another reader.
    let mut readers: HashMap<Slot, Option<Vec<usize>>> = HashMap::new();
    for (index, step) in scope.steps.iter().enumerate() {
        for (position, slot) in step.inputs.iter().enumerate() {
            let Some(slot) = slot else { continue };
            let of = readers.entry(*slot).or_insert_with(|| Some(Vec::new()));
            match (of.as_mut(), step.form == Form::MatMul && position == 1) {
                (Some(products), true) => products.push(index),
                _ => *of = None,
            }
        }
    }
    for slot in outputs {
        readers.insert(*slot, None);
    }
    let mut gone = vec![false; scope.steps.len()];
    for (index, gone) in gone.iter_mut().enumerate() {
        let step = &scope.steps[index];
        let (Form::DequantizeLinear { axis, block }, [Some(made)]) = (&step.form, &*step.outputs)
        else {
            continue;
        };
        let made = *made;
        let products = match readers.get(&made) {
            Some(Some(products)) if !products.is_empty() => Some(products),
            _ => None,
        };
        let single = |product: &usize| {
            let left = scope.steps[*product].inputs.first().copied().flatten();
            let ty = left.map(|slot| &scope.known(slot).ty);
            let ty = ty.and_then(|ty| ty.tensor());
            ty.is_some_and(|ty| ty.dtype == Some(DType::Float))
        };
        let packed = products
            .filter(|products| products.iter().all(single))
            .and_then(|_| packed(scope, &step.inputs, *axis, *block, folding));
        if let (Some(packed), Some(products)) = (packed, products) {
            let kernel: Arc<dyn Kernel> = Arc::new(PackedMatMul::new(packed));
            for &product in products {
                let step = &mut scope.steps[product];
                step.kernel = kernel.clone();
                step.inputs = step.inputs.iter().take(1).copied().collect();
                step.form = Form::Other;
            }
            *gone = true;
            continue;
        }
        *gone = folded(scope, index, made, folding);
    }
    let mut gone = gone.into_iter();
    scope.steps.retain(|_| !gone.next().unwrap_or(false));
}

/// Folds the step that makes a slot; `false` when it has to stay.
fn folded(scope: &mut Scope<'_>, index: usize, made: Slot, folding: &Folding) -> bool {
    let step = &scope.steps[index];
    let constants: Option<Vec<Option<RuntimeValue>>> = step
        .inputs
        .iter()
        .map(|slot| match slot {
            None => Some(None),
            Some(slot) => scope.known(*slot).constant.clone().map(Some),
        })
        .collect();
    let values = constants.and_then(|constants| folding.fold(step, &constants));
    match values.and_then(|values| values.into_iter().next().flatten()) {
        None => false,
        Some(value) => {
            scope.known[made as usize].constant = Some(value);
            true
        }
    }
}

/// The codes of a `DequantizeLinear`, packed; `None` where products do not know the layout.
fn packed(
    scope: &Scope<'_>,
    inputs: &[Option<Slot>],
    axis: i64,
    block: usize,
    folding: &Folding,
) -> Option<Repacked> {
    let tensor = |index: usize| -> Option<&Tensor> {
        let slot = (*inputs.get(index)?)?;
        scope.known(slot).tensor()
    };
    let (codes, scale) = (tensor(0)?, tensor(1)?);
    let &[k, n] = codes.shape() else { return None };
    if scale.dtype() != DType::Float {
        return None;
    }
    let scales: View<'_, f32> = scale.view().ok()?;
    let by_row = [0, -2].contains(&axis);
    // A scale for all rows of a column serves blocks of any size.
    let whole = k.checked_next_multiple_of(32)?;
    let (scales, rows) = if scale.elements() == 1 {
        (scales.reshape(&[1, 1])?.broadcast(&[1, n])?, whole)
    } else if block == 0 && scale.shape() == [n] && !by_row {
        (scales.reshape(&[1, n])?, whole)
    } else if block > 0 && by_row {
        (scales, block)
    } else {
        return None;
    };
    let zeros = match inputs.get(2).copied().flatten() {
        None => None,
        Some(_) => {
            let zeros = tensor(2)?;
            // One zero point for several scales has no place in the packed form.
            let alike = zeros.dtype() == codes.dtype() && zeros.elements() == scales.len();
            let bytes = zeros.as_bytes()?;
            match (alike, zeros.elements()) {
                (true, _) => Some(bytes),
                (false, 1) if bytes.iter().all(|byte| *byte == 0) => None,
                _ => return None,
            }
        }
    };
    let rows = RowCodes {
        dtype: codes.dtype(),
        k,
        n,
        codes: codes.as_bytes()?,
        block: rows,
        scales,
        zeros,
    };
    repack(folding.compute(), &rows)
}
