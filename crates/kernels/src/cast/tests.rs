use super::*;
use refeed_values::{Allocator, Layout};

fn converted<S: Element, D: Element>(x: &[S]) -> Vec<D> {
    let x = Tensor::from_slice(&[x.len()], x).unwrap();
    let mut out = TensorMut::new(&Allocator::default(), D::DTYPE, x.shape()).unwrap();
    cast(S::DTYPE, D::DTYPE).unwrap()(&x, &mut out).unwrap();
    out.freeze().view::<D>().unwrap().to_vec()
}

fn bits(x: &[bf16]) -> Vec<u16> {
    x.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn bfloat16_rounds_to_nearest_even_by_every_route() {
    let ulp = 2f32.powi(-7); // of BFLOAT16 from 1 to 2
    let reals = [
        1.0 + ulp / 2.0,
        1.0 + ulp * 1.5,
        std::f32::consts::PI,
        257.0,
        259.0,
    ];
    let want = [0x3f80, 0x3f82, 0x4049, 0x4380, 0x4382];
    assert_eq!(bits(&converted::<f32, bf16>(&reals)), want);
    assert_eq!(bits(&converted::<f64, bf16>(&reals.map(f64::from))), want);
    assert_eq!(bits(&converted::<i64, bf16>(&[257, 259])), want[3..]);
    assert_eq!(bits(&converted::<u16, bf16>(&[257, 259])), want[3..]);
    assert!(converted::<f32, bf16>(&[f32::from_bits(0x7f80_0001)])[0].is_nan());
}

#[test]
fn narrowing_rounds_once() {
    // Just above a tie of the target; f32 in between would fall onto the tie and then to even.
    let above = 1.0 + 2f64.powi(-8) + 2f64.powi(-40);
    assert_eq!(
        converted::<f64, bf16>(&[above])[0].to_f64(),
        1.0 + 2f64.powi(-7)
    );
    let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    assert_eq!(
        converted::<f64, f16>(&[above])[0].to_f64(),
        1.0 + 2f64.powi(-10)
    );
    let big = (1i64 << 60) + (1 << 52) + 1;
    assert_eq!(
        converted::<i64, bf16>(&[big, -big])[0].to_f64(),
        2f64.powi(60) * (1.0 + 2f64.powi(-7))
    );
    assert_eq!(
        converted::<i64, bf16>(&[-big])[0].to_f64(),
        -(2f64.powi(60) * (1.0 + 2f64.powi(-7)))
    );
    assert_eq!(converted::<u64, f32>(&[u64::MAX])[0], 1.844_674_4e19);
    // Overflow and underflow.
    assert_eq!(
        converted::<f64, f16>(&[65519.9, 65520.0]).map_bits(),
        [0x7bff, 0x7c00]
    );
    assert_eq!(
        converted::<f64, f32>(&[1e300, -1e300]),
        [f32::INFINITY, f32::NEG_INFINITY]
    );
    assert_eq!(
        converted::<f64, bf16>(&[1e300, 1e-300])
            .iter()
            .map(|x| x.to_f32())
            .collect::<Vec<_>>(),
        [f32::INFINITY, 0.0]
    );
    assert_eq!(
        converted::<f64, f16>(&[2f64.powi(-25), 2f64.powi(-25) * 1.001]).map_bits(),
        [0, 1]
    );
}

trait MapBits {
    fn map_bits(&self) -> Vec<u16>;
}
impl MapBits for Vec<f16> {
    fn map_bits(&self) -> Vec<u16> {
        self.iter().map(|x| x.to_bits()).collect()
    }
}

#[test]
fn reals_truncate_and_clamp_to_integers() {
    let x = [2.9f32, -2.9, 300.0, -300.0, f32::NAN, f32::INFINITY];
    assert_eq!(converted::<f32, i64>(&x), [2, -2, 300, -300, 0, i64::MAX]);
    assert_eq!(converted::<f32, i8>(&x), [2, -2, 127, -128, 0, 127]);
    assert_eq!(converted::<f32, u8>(&x), [2, 0, 255, 0, 0, 255]);
    assert_eq!(converted::<f16, i32>(&[f16::from_f32(-7.5)]), [-7]);
    assert_eq!(
        converted::<f64, u64>(&[1.8e19, -1.0]),
        [18_000_000_000_000_000_000, 0]
    );
}

#[test]
fn integers_keep_their_low_bits() {
    assert_eq!(converted::<i64, i32>(&[1 << 32 | 5, -1]), [5, -1]);
    assert_eq!(converted::<i32, u8>(&[-1, 256, 513]), [255, 0, 1]);
    assert_eq!(converted::<u8, i8>(&[200]), [-56]);
    assert_eq!(converted::<i8, u64>(&[-1]), [u64::MAX]);
}

#[test]
fn truth() {
    fn to_bool<S: Element>(x: &[S]) -> Vec<u8> {
        let x = Tensor::from_slice(&[x.len()], x).unwrap();
        let mut out = TensorMut::new(&Allocator::default(), DType::Bool, x.shape()).unwrap();
        cast(S::DTYPE, DType::Bool).unwrap()(&x, &mut out).unwrap();
        out.freeze().view::<u8>().unwrap().to_vec()
    }
    assert_eq!(to_bool(&[0f32, -0.0, 0.1, f32::NAN, -3.0]), [0, 0, 1, 1, 1]);
    assert_eq!(to_bool(&[0i64, 256, -1]), [0, 1, 1]);
    assert_eq!(to_bool(&[f16::from_f32(-0.0), f16::from_f32(2.0)]), [0, 1]);
    let flags = Tensor::from_slice(&[3], &[0u8, 1, 9])
        .unwrap()
        .reinterpret(DType::Bool)
        .unwrap();
    let mut out = TensorMut::new(&Allocator::default(), DType::Float, &[3]).unwrap();
    cast(DType::Bool, DType::Float).unwrap()(&flags, &mut out).unwrap();
    assert_eq!(
        out.freeze().view::<f32>().unwrap().to_vec(),
        [0.0, 1.0, 1.0]
    );
}

#[test]
fn every_pair_converts_small_numbers_through_strides() {
    use DType::*;
    let all = [
        Float, Double, Float16, Bfloat16, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64,
    ];
    let layout = Layout::strided(&[3, 2], &[1, 3]).unwrap();
    let source = Tensor::from_slice(&[6], &[0i32, 1, 2, 3, 4, 5]).unwrap();
    let turned = source.with_layout(layout, 0).unwrap();
    for from in all {
        let mut there = TensorMut::new(&Allocator::default(), from, &[3, 2]).unwrap();
        cast(Int32, from).unwrap()(&turned, &mut there).unwrap();
        let there = there.freeze();
        for to in all {
            let mut made = TensorMut::new(&Allocator::default(), to, &[3, 2]).unwrap();
            cast(from, to).unwrap()(&there, &mut made).unwrap();
            let mut back = TensorMut::new(&Allocator::default(), Int32, &[3, 2]).unwrap();
            cast(to, Int32).unwrap()(&made.freeze(), &mut back).unwrap();
            let back = back.freeze().view::<i32>().unwrap().to_vec();
            assert_eq!(back, [0, 3, 1, 4, 2, 5], "{from} to {to}");
        }
    }
    assert!(cast(String, Float).is_none() && cast(Float, Float8E5M2).is_none());
    assert!(cast(Bool, String).is_none());
}
