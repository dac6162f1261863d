//! `com.microsoft.MatMulNBits`: products with weights of 2, 4 or 8 bits, which stay packed.

use crate::kernel::{Build, Invocation, Kernel, KernelEntry, OpError};
use refeed_graph::attributes::AttributeError;
use refeed_kernels::Real;
use refeed_kernels::matmul::nbits::{Layout, Numbers, Repacked, Weights, Zeros, multiply};
use refeed_values::layout::Dims;
use refeed_values::{DType, Tensor};

/// Types of the rows on the left, of scales and of unpacked zero points.
const REALS: &[DType] = &[DType::Float, DType::Float16, DType::Bfloat16];
const ZERO_POINTS: &[DType] = &[DType::Uint8, DType::Float, DType::Float16, DType::Bfloat16];

struct MatMulNBits {
    layout: Layout,
}

/// The numbers of a dense tensor.
fn numbers(index: usize, tensor: &Tensor) -> Result<Numbers<'_>, OpError> {
    let strided = || OpError::Shape(format!("input {index}: expected a dense tensor"));
    Ok(match tensor.dtype() {
        DType::Float => Numbers::Float(tensor.view()?.as_slice().ok_or_else(strided)?),
        DType::Float16 => Numbers::Float16(tensor.view()?.as_slice().ok_or_else(strided)?),
        DType::Bfloat16 => Numbers::Bfloat16(tensor.view()?.as_slice().ok_or_else(strided)?),
        got => {
            return Err(OpError::DType {
                index,
                expected: "FLOAT, FLOAT16 or BFLOAT16".to_string(),
                got,
            });
        }
    })
}

fn bytes(index: usize, tensor: &Tensor) -> Result<&[u8], OpError> {
    let strided = || OpError::Shape(format!("input {index}: expected a dense tensor"));
    tensor.as_bytes().ok_or_else(strided)
}

/// The shape of the result: the last extent of the rows becomes the number of columns.
fn product_shape(rows: &Tensor, columns: usize) -> Dims {
    let mut shape = Dims::from_slice(rows.shape());
    if let Some(last) = shape.last_mut() {
        *last = columns;
    }
    shape
}

impl MatMulNBits {
    fn typed<T: Real<Acc = f32>>(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let rows = call.require(0)?;
        let Layout { k, n, .. } = self.layout;
        if rows.shape().last() != Some(&k) {
            return Err(OpError::Shape(format!(
                "input 0: expected rows of {k} elements, got shape {:?}",
                rows.shape()
            )));
        }
        let bias = match call.input(5) {
            None => None,
            Some(bias) if bias.shape() == [n] => Some(call.dense(bias)?),
            Some(bias) => {
                return Err(OpError::Shape(format!(
                    "bias: expected shape [{n}], got {:?}",
                    bias.shape()
                )));
            }
        };
        let bias = match &bias {
            None => None,
            Some(bias) => bias.view::<T>()?.as_slice(),
        };
        let codes = call.require(1)?;
        let shape = product_shape(rows, n);
        let mut out = call.allocate(T::DTYPE, &shape)?;
        let slots = out.as_mut_slice::<T>()?;
        if codes.elements() == 0 {
            // A projection that was left out, as the operator's text has it.
            for row in slots.chunks_exact_mut(n) {
                match bias {
                    Some(bias) => row.copy_from_slice(bias),
                    None => row.fill(T::default()),
                }
            }
        } else {
            let codes = call.dense(codes)?;
            let scales = call.dense(call.require(2)?)?;
            let zeros = match call.input(3) {
                Some(zeros) => Some(call.dense(zeros)?),
                None => None,
            };
            let zeros = match &zeros {
                None => Zeros::Middle,
                Some(zeros) if zeros.dtype() == DType::Uint8 => Zeros::Codes(bytes(3, zeros)?),
                Some(zeros) => Zeros::Numbers(numbers(3, zeros)?),
            };
            let codes = bytes(1, &codes)?;
            let weights = Weights::new(self.layout, codes, numbers(2, &scales)?, zeros)?;
            multiply(call.compute(), &rows.view::<T>()?, &weights, bias, slots)?;
        }
        call.set(0, out.freeze());
        Ok(())
    }
}

impl Kernel for MatMulNBits {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        match call.require(0)?.dtype() {
            DType::Float => self.typed::<f32>(call),
            DType::Float16 => self.typed::<half::f16>(call),
            DType::Bfloat16 => self.typed::<half::bf16>(call),
            got => Err(OpError::DType {
                index: 0,
                expected: "FLOAT, FLOAT16 or BFLOAT16".to_string(),
                got,
            }),
        }
    }
}

/// `MatMul` with weights that the graph dequantizes, which were packed when the session was built.
pub(crate) struct PackedMatMul(Repacked);

impl PackedMatMul {
    pub(crate) fn new(weights: Repacked) -> PackedMatMul {
        PackedMatMul(weights)
    }
}

impl Kernel for PackedMatMul {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let weights = self.0.weights()?;
        let Layout { k, n, .. } = weights.layout();
        let rows = call.view::<f32>(0)?;
        if rows.shape().last() != Some(&k) {
            return Err(OpError::Shape(format!(
                "input 0: expected rows of {k} elements, got shape {:?}",
                rows.shape()
            )));
        }
        let shape = product_shape(call.require(0)?, n);
        let mut out = call.allocate(DType::Float, &shape)?;
        let slots = out.as_mut_slice::<f32>()?;
        multiply(call.compute(), &rows, &weights, None, slots)?;
        call.set(0, out.freeze());
        Ok(())
    }
}

/// Source: the contributed operators of onnxruntime, `com.microsoft.MatMulNBits`.
fn build(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let attributes = build.attributes;
    let size = |name: &'static str, number: i64| {
        usize::try_from(number).map_err(|_| AttributeError::Value {
            name,
            expected: "a number above 0",
            got: number.to_string(),
        })
    };
    let layout = Layout::new(
        size("bits", attributes.int_or("bits", 4)?)?,
        size("K", attributes.required_int("K")?)?,
        size("N", attributes.required_int("N")?)?,
        size("block_size", attributes.required_int("block_size")?)?,
    )?;
    // How coarsely inputs may be rounded: not at all is within every level.
    let level = attributes.int_or("accuracy_level", 0)?;
    if !(0..=4).contains(&level) {
        return Err(AttributeError::Value {
            name: "accuracy_level",
            expected: "a number from 0 to 4",
            got: level.to_string(),
        }
        .into());
    }
    let prepacked = attributes.int_or("weight_prepacked", 0)?;
    if prepacked != 0 {
        return Err(OpError::Unsupported(format!(
            "MatMulNBits with weight_prepacked {prepacked}, a layout of another runtime"
        )));
    }
    if build.has(4) {
        return Err(OpError::Unsupported(
            "MatMulNBits with input 4 (g_idx)".to_string(),
        ));
    }
    Ok(Box::new(MatMulNBits { layout }))
}

pub(super) const KERNELS: &[KernelEntry] = &[KernelEntry {
    domain: "com.microsoft",
    op_type: "MatMulNBits",
    types: &[
        (0, REALS),
        (1, &[DType::Uint8]),
        (2, REALS),
        (3, ZERO_POINTS),
        (5, REALS),
    ],
    build,
}];

#[cfg(test)]
mod tests {
    use super::super::trial::{Trial, floats, listed};
    use super::*;

    fn node() -> Trial {
        Trial::new("MatMulNBits", 1)
            .domain("com.microsoft")
            .int("K", 32)
            .int("N", 2)
            .int("block_size", 16)
    }

    fn weights() -> (Tensor, Tensor) {
        let codes: Vec<u8> = (0..32u8).map(|i| i.wrapping_mul(37)).collect();
        let codes = Tensor::from_slice(&[2, 2, 8], &codes).unwrap();
        (
            codes,
            Tensor::from_slice(&[2, 2], &[0.5f32, 0.25, 2.0, 1.0]).unwrap(),
        )
    }

    #[test]
    fn what_is_not_computed_is_refused_by_name() {
        let (x, (codes, scales)) = (floats(&[3, 32]), weights());
        let groups = Tensor::from_slice(&[32], &[0i32; 32]).unwrap();
        let all = [Some(&x), Some(&codes), Some(&scales), None, Some(&groups)];
        let refused = node().run(&all).unwrap_err().to_string();
        assert!(refused.contains("g_idx"), "{refused}");
        for (name, value) in [("weight_prepacked", 1), ("accuracy_level", 5), ("bits", 3)] {
            let refused = node()
                .int(name, value)
                .run(&all[..3])
                .unwrap_err()
                .to_string();
            assert!(refused.contains(name), "{refused}");
        }
        let short = floats(&[3, 31]);
        let refused = node().run(&[Some(&short), Some(&codes), Some(&scales)]);
        assert!(refused.unwrap_err().to_string().contains("rows of 32"));
        let few = Tensor::from_slice(&[2, 1], &[0.5f32, 0.25]).unwrap();
        let refused = node().run(&[Some(&x), Some(&codes), Some(&few)]);
        assert!(refused.unwrap_err().to_string().contains("scales"));
    }

    #[test]
    fn a_projection_that_is_left_out_gives_its_bias() {
        let (x, (_, scales)) = (floats(&[2, 3, 32]), weights());
        let none = Tensor::from_slice::<u8>(&[2, 0, 8], &[]).unwrap();
        let bias = floats(&[2]);
        let out = node()
            .run(&[
                Some(&x),
                Some(&none),
                Some(&scales),
                None,
                None,
                Some(&bias),
            ])
            .unwrap();
        assert_eq!(out[0].shape(), [2, 3, 2]);
        assert_eq!(listed(&out[0]), listed(&bias).repeat(6));
        let out = node().run(&[Some(&x), Some(&none), Some(&scales)]).unwrap();
        assert_eq!(listed(&out[0]), [0.0; 12]);
    }
}
