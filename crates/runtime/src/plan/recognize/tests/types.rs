//! Types of 16 bits, and a softmax in another type than the caches.

use super::*;

/// The constants of the graph, and their bits as FLOAT16 and as BFLOAT16: the text form writes those.
const BITS: [(&str, &str, &str); 4] = [
    (
        "{0.5, 0.25, 0.125, 1.0}",
        "{14336, 13312, 12288, 15360}",
        "{16128, 16000, 15872, 16256}",
    ),
    ("{0.5}", "{14336}", "{16128}"),
    ("{0.0}", "{0}", "{0}"),
    ("{-3.4028235e38}", "{64511}", "{65407}"),
];

/// Extents that differ pairwise: 4 heads on 2, 3 new positions, 11 in all, of 8 and 6.
const UNEQUAL: Sizes = Sizes {
    batch: 2,
    mask_batch: 2,
    past: 8,
    new: 3,
};

/// The graph in another type.
fn narrowed(text: &str, dtype: DType) -> String {
    let half = dtype == DType::Float16;
    let mut text = text.replace("float", if half { "float16" } else { "bfloat16" });
    for (number, float16, bfloat16) in BITS {
        text = text.replace(number, if half { float16 } else { bfloat16 });
    }
    text
}

pub(super) fn of_type(tensor: &Tensor, dtype: DType) -> Tensor {
    let wide = numbers(tensor);
    let shape = tensor.shape();
    match dtype {
        DType::Float16 => {
            let narrow: Vec<half::f16> = wide.iter().map(|&x| half::f16::from_f64(x)).collect();
            Tensor::from_slice(shape, &narrow)
        }
        DType::Bfloat16 => {
            let narrow: Vec<half::bf16> = wide.iter().map(|&x| half::bf16::from_f64(x)).collect();
            Tensor::from_slice(shape, &narrow)
        }
        DType::Float => {
            let narrow: Vec<f32> = wide.iter().map(|&x| x as f32).collect();
            Tensor::from_slice(shape, &narrow)
        }
        _ => Tensor::from_slice(shape, &wide),
    }
    .unwrap()
}

fn all_of(feeds: Vec<(&'static str, Tensor)>, dtype: DType) -> Vec<(&'static str, Tensor)> {
    let each = feeds.into_iter();
    each.map(|(name, tensor)| (name, of_type(&tensor, dtype)))
        .collect()
}

/// Queries between -0.4 and 0.4, so that scores stay near 1.
fn small(mut feeds: Vec<(&'static str, Tensor)>) -> Vec<(&'static str, Tensor)> {
    for (name, tensor) in &mut feeds {
        if ["q", "k", "past_k"].contains(name) {
            let fifth: Vec<f64> = numbers(tensor).iter().map(|x| x / 5.0).collect();
            *tensor = of_type(
                &Tensor::from_slice(tensor.shape(), &fifth).unwrap(),
                DType::Float,
            );
        }
    }
    feeds
}

/// `softmax(0.5 · q · kᵀ + mask) · v` of the grouped graph in FLOAT64.
fn oracle(feeds: &[(&'static str, Tensor)]) -> Vec<f64> {
    let held = |name: &str| {
        let (_, tensor) = feeds.iter().find(|(held, _)| *held == name).unwrap();
        (tensor.shape().to_vec(), numbers(tensor))
    };
    let ((shape, q), (mask_shape, mask)) = (held("q"), held("mask"));
    let (batch, new) = (shape[0], shape[2]);
    let (past_k, past_v, k, v) = (held("past_k"), held("past_v"), held("k"), held("v"));
    let past = past_k.0[2];
    let row = |old: &(Vec<usize>, Vec<f64>), fresh: &(Vec<usize>, Vec<f64>), b, h, j| {
        let (from, length, j) = if j < past {
            (&old.1, past, j)
        } else {
            (&fresh.1, new, j - past)
        };
        let width = old.0[3];
        let start = ((b * 2 + h) * length + j) * width;
        from[start..start + width].to_vec()
    };
    let mut out = Vec::new();
    for b in 0..batch {
        for h in 0..4 {
            for i in 0..new {
                let query = &q[((b * 4 + h) * new + i) * 8..][..8];
                let scores: Vec<f64> = (0..past + new)
                    .map(|j| {
                        let key = row(&past_k, &k, b, h / 2, j);
                        let product: f64 = query.iter().zip(&key).map(|(a, b)| a * b).sum();
                        let at = (b % mask_shape[0]) * new + i;
                        0.5 * product + mask[at * (past + new) + j]
                    })
                    .collect();
                let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
                let sum: f64 = weights.iter().sum();
                for c in 0..6 {
                    let terms = weights.iter().enumerate();
                    let total: f64 = terms
                        .map(|(j, w)| w * row(&past_v, &v, b, h / 2, j)[c])
                        .sum();
                    out.push(total / sum);
                }
            }
        }
    }
    out
}

/// A graph of 16 bits whose attention goes to the kernel, in every call, and is nearer to the truth than rounding once.
fn runs_in(text: &str, feeds: &[(&'static str, Tensor)], dtype: DType) {
    let (unit, tolerance) = match dtype {
        DType::Float16 => (2f64.powi(-11), 1e-2),
        _ => (2f64.powi(-8), 8e-2),
    };
    let forms = compared(text, feeds, tolerance);
    let [form] = &forms[..] else {
        panic!("{forms:?} {text}");
    };
    assert_eq!(
        (form.obstacle.as_deref(), form.declined()),
        (None, None),
        "{text}"
    );
    let context = RuntimeContext::default();
    let given = feeds.iter().map(|(name, value)| (*name, value.clone()));
    let got = session(text, true).run(&context, given).unwrap();
    let got = numbers(got.tensor("y").unwrap());
    for (got, want) in got.into_iter().zip(oracle(feeds)) {
        assert!(
            (got - want).abs() <= 2.0 * unit * want.abs().max(0.5),
            "{got} {want}\n{text}"
        );
    }
}

#[test]
fn doubles_run() {
    let text = GROUPED.replace("float", "double");
    let forms = both(&text, &all_of(feeds(UNEQUAL), DType::Double), false);
    assert_eq!(
        (forms[0].obstacle.as_deref(), forms[0].declined()),
        (None, None)
    );
}

#[test]
fn sixteen_bits_run_and_are_rounded_once() {
    for dtype in [DType::Float16, DType::Bfloat16] {
        for (past, new) in [(0, 1), (8, 3), (70, 1), (129, 2)] {
            let sizes = Sizes {
                past,
                new,
                ..UNEQUAL
            };
            runs_in(
                &narrowed(GROUPED, dtype),
                &all_of(small(feeds(sizes)), dtype),
                dtype,
            );
        }
    }
}

#[test]
fn a_softmax_in_a_wider_type_runs() {
    for dtype in [DType::Float16, DType::Bfloat16] {
        let back = dtype.to_onnx();
        let given = all_of(small(feeds(UNEQUAL)), dtype);
        for (softmax, note) in [
            // As torch's newer exporter writes a softmax in another type.
            (
                format!(
                    "wide = Cast <to = 1> (masked) soft = Softmax <axis = -1> (wide) weights = Cast <to = {back}> (soft)"
                ),
                "around",
            ),
            // As its older one does.
            (
                format!(
                    "soft = Softmax <axis = -1> (masked) wide = Cast <to = 1> (soft) weights = Cast <to = {back}> (wide)"
                ),
                "behind",
            ),
            (
                format!(
                    "wide = Cast <to = 1> (masked) wider = Cast <to = 11> (wide) soft = Softmax <axis = -1> (wider) weights = Cast <to = {back}> (soft)"
                ),
                "twice",
            ),
        ] {
            let text = changed(&[("weights = Softmax <axis = -1> (masked)", &softmax)]);
            let text = narrowed(&text, dtype);
            assert!(text.contains(&softmax), "{note}");
            runs_in(&text, &given, dtype);
        }
        // Scaled and masked in FLOAT, too.
        let text = changed(&[
            (
                "scores = Mul (product, scale)",
                "above = Cast <to = 1> (product) half = Cast <to = 1> (scale) scores = Mul (above, half)",
            ),
            (
                "weights = Softmax <axis = -1> (masked)",
                &format!("soft = Softmax <axis = -1> (masked) weights = Cast <to = {back}> (soft)"),
            ),
        ]);
        let text = narrowed(&text, dtype);
        let name = dtype.to_string().to_lowercase();
        let text = text.replace(&format!("{name}[M,1,S,T] mask"), "float[M,1,S,T] mask");
        let exact = numbers(&given[5].1);
        let wide_mask = of_type(
            &Tensor::from_slice(given[5].1.shape(), &exact).unwrap(),
            DType::Float,
        );
        runs_in(&text, &with(given.clone(), "mask", wide_mask), dtype);
        // Digits of the mask that 16 bits do not have.
        let odd: Vec<f32> = exact.iter().map(|x| *x as f32 + 1e-5).collect();
        let odd = Tensor::from_slice(given[5].1.shape(), &odd).unwrap();
        let forms = compared(&text, &with(given.clone(), "mask", odd), 0.0);
        assert!(forms[0].declined().unwrap().1.contains("digits"));
        // Products of FLOAT from keys and queries of 16 bits.
        let text = changed(&[
            (
                "product = MatMul (q, k_t)",
                "q_wide = Cast <to = 1> (q) k_wider = Cast <to = 1> (k_t) above = MatMul (q_wide, k_wider)",
            ),
            (
                "scores = Mul (product, scale)",
                "half = Cast <to = 1> (scale) scores = Mul (above, half)",
            ),
            (
                "masked = Add (scores, mask)",
                "wide_mask = Cast <to = 1> (mask) masked = Add (scores, wide_mask)",
            ),
            (
                "weights = Softmax <axis = -1> (masked)",
                &format!("soft = Softmax <axis = -1> (masked) weights = Cast <to = {back}> (soft)"),
            ),
        ]);
        runs_in(&narrowed(&text, dtype), &given, dtype);
    }
    // FLOAT with a softmax of DOUBLE.
    let text = changed(&[(
        "weights = Softmax <axis = -1> (masked)",
        "wide = Cast <to = 11> (masked) soft = Softmax <axis = -1> (wide) weights = Cast <to = 1> (soft)",
    )]);
    let forms = both(&text, &feeds(UNEQUAL), false);
    assert_eq!(
        (forms[0].obstacle.as_deref(), forms[0].declined()),
        (None, None)
    );
}

#[test]
fn types_that_lose_digits_stay() {
    stays(
        &[(
            "weights = Softmax <axis = -1> (masked)",
            "low_bits = Cast <to = 10> (masked) soft = Softmax <axis = -1> (low_bits) weights = Cast <to = 1> (soft)",
        )],
        "numbers of type FLOAT become FLOAT16 on the way",
    );
    stays(
        &[(
            "weights = Softmax <axis = -1> (masked)",
            "soft = Softmax <axis = -1> (masked) low_bits = Cast <to = 16> (soft) weights = Cast <to = 1> (low_bits)",
        )],
        "numbers of type FLOAT become BFLOAT16 on the way",
    );
    // As torch's older exporter mixes the types: scores of 16 bits, weights and values of FLOAT.
    let text = changed(&[
        (
            "weights = Softmax <axis = -1> (masked)",
            "wide = Cast <to = 1> (masked) weights = Softmax <axis = -1> (wide)",
        ),
        (
            "y = MatMul (weights, v4)",
            "v_wide_copies = Cast <to = 1> (v4) y = MatMul (weights, v_wide_copies)",
        ),
    ]);
    let text = narrowed(&text, DType::Float16).replace("float16[B,4,S,6] y", "float[B,4,S,6] y");
    let forms = compared(&text, &all_of(feeds(UNEQUAL), DType::Float16), 0.0);
    assert_eq!(
        forms[0].obstacle.as_deref(),
        Some("numbers of type FLOAT become FLOAT16 on the way")
    );
}

#[test]
fn sixteen_bits_behind_a_large_mask_are_left_to_the_nodes() {
    for (dtype, lowest) in [
        (DType::Float16, -65504.0),
        (DType::Float16, -1e4),
        (DType::Bfloat16, -1e9),
    ] {
        let text = narrowed(GROUPED, dtype);
        let all = all_of(small(feeds(UNEQUAL)), dtype);
        let mut mask = vec![0f64; 2 * 3 * 11];
        mask[11..20].fill(lowest);
        mask[25..33].fill(lowest);
        let tensor =
            |mask: &[f64]| of_type(&Tensor::from_slice(&[2, 1, 3, 11], mask).unwrap(), dtype);
        runs_in(&text, &with(all.clone(), "mask", tensor(&mask)), dtype);
        mask[11..22].fill(lowest);
        let forms = compared(&text, &with(all, "mask", tensor(&mask)), 0.0);
        let (calls, why) = forms[0].declined().unwrap();
        assert_eq!(calls, 1);
        assert!(why.contains("16 bits round scores away"), "{why}");
    }
    // The lowest BFLOAT16 is so low that it stays what it is with any score.
    let text = narrowed(GROUPED, DType::Bfloat16);
    let mut mask = vec![0f64; 2 * 3 * 11];
    mask[11..22].fill(f64::from(half::bf16::MIN));
    let mask = of_type(
        &Tensor::from_slice(&[2, 1, 3, 11], &mask).unwrap(),
        DType::Bfloat16,
    );
    let all = all_of(small(feeds(UNEQUAL)), DType::Bfloat16);
    let forms = compared(&text, &with(all, "mask", mask), 8e-2);
    assert_eq!(forms[0].declined(), None);
}

#[test]
fn sixteen_bits_without_a_key_are_as_the_nodes_have_it() {
    let guarded = [(
        "y = MatMul (weights, v4)",
        "absent = IsNaN (weights) kept = Where (absent, zero, weights) y = MatMul (kept, v4)",
    )];
    let mut mask = vec![0f64; 2 * 3 * 11];
    mask[11..22].fill(f64::NEG_INFINITY);
    for dtype in [DType::Float16, DType::Bfloat16] {
        let mask = of_type(&Tensor::from_slice(&[2, 1, 3, 11], &mask).unwrap(), dtype);
        let all = with(all_of(small(feeds(UNEQUAL)), dtype), "mask", mask);
        let forms = compared(&narrowed(GROUPED, dtype), &all, 0.0);
        assert_eq!(forms[0].declined(), Some((1, "a query sees no key")));
        let forms = compared(&narrowed(&changed(&guarded), dtype), &all, 8e-2);
        assert_eq!(
            (forms[0].obstacle.as_deref(), forms[0].declined()),
            (None, None)
        );
    }
}
