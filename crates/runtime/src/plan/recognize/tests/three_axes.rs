//! Products of three axes, batch and heads as one, as torch's `bmm` is exported.

use super::*;

/// As the exporter writes a decoder that multiplies by `bmm`: 3 heads; everything computed from shapes.
const MERGED: &str = r#"
<ir_version: 8, opset_import: ["" : 17]>
g (float[B,3,S,8] q, float[B,3,P,8] past_k, float[B,3,P,5] past_v, float[B,3,S,8] k, float[B,3,S,5] v,
   float[M,1,S,T] mask)
  => (float[N,S,5] y, float[B,3,T,8] present_k, float[B,3,T,5] present_v)
<int64 zeroth = {0}, int64 first = {1}, int64 second = {2}, int64 third = {3}, int64[1] at0 = {0},
 int64[1] minus = {-1}, int64[1] five = {5}, float scale = {0.35}, float zero = {0.0}, float low = {-1e9}>
{
  present_k = Concat <axis = 2> (past_k, k)
  present_v = Concat <axis = 2> (past_v, v)
  q_shape = Shape (q)
  batch = Gather <axis = 0> (q_shape, zeroth)
  heads = Gather <axis = 0> (q_shape, first)
  length = Gather <axis = 0> (q_shape, second)
  size = Gather <axis = 0> (q_shape, third)
  scaled = Mul (q, scale)
  both = Mul (batch, heads)
  batch1 = Unsqueeze (batch, at0)
  heads1 = Unsqueeze (heads, at0)
  both1 = Unsqueeze (both, at0)
  length1 = Unsqueeze (length, at0)
  size1 = Unsqueeze (size, at0)
  q_at = Concat <axis = 0> (both1, length1, size1)
  q3 = Reshape (scaled, q_at)
  k_at = Concat <axis = 0> (both1, minus, size1)
  k3 = Reshape (present_k, k_at)
  v_at = Concat <axis = 0> (both1, minus, five)
  v3 = Reshape (present_v, v_at)
  k_t = Transpose <perm = [0, 2, 1]> (k3)
  product = MatMul (q3, k_t)
  k3_shape = Shape (k3)
  total = Gather <axis = 0> (k3_shape, first)
  total1 = Unsqueeze (total, at0)
  four = Concat <axis = 0> (batch1, heads1, length1, total1)
  scores = Reshape (product, four)
  masked = Add (scores, mask)
  three = Concat <axis = 0> (both1, length1, total1)
  flat = Reshape (masked, three)
  weights = Softmax <axis = -1> (flat)
  y = MatMul (weights, v3)
}
"#;

/// Batch 2, 3 heads, 4 new positions of 11 in all, of 8 and 5.
fn merged_feeds(batch: usize, past: usize, new: usize) -> Vec<(&'static str, Tensor)> {
    vec![
        ("q", filled(&[batch, 3, new, 8], 1)),
        ("past_k", filled(&[batch, 3, past, 8], 2)),
        ("past_v", filled(&[batch, 3, past, 5], 3)),
        ("k", filled(&[batch, 3, new, 8], 4)),
        ("v", filled(&[batch, 3, new, 5], 5)),
        ("mask", filled(&[batch, 1, new, past + new], 6)),
    ]
}

fn merged(changes: &[(&str, &str)]) -> String {
    let mut text = MERGED.to_string();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    text
}

/// A graph whose attention must go to the kernel; returns how many nodes that stands for.
fn kernel(text: &str, feeds: &[(&'static str, Tensor)]) -> usize {
    let forms = both(text, feeds, false);
    let [form] = &forms[..] else {
        panic!("{forms:?} {text}");
    };
    assert_eq!(
        (form.obstacle.as_deref(), form.declined()),
        (None, None),
        "{text}"
    );
    form.nodes
}

fn nodes(text: &str, feeds: &[(&'static str, Tensor)], why: &str) {
    let forms = both(text, feeds, true);
    let [form] = &forms[..] else {
        panic!("{forms:?} {text}");
    };
    let declined = form.declined().map(|(_, why)| why);
    let said = form.obstacle.as_deref().or(declined).unwrap_or("nothing");
    assert!(said.contains(why), "{said:?} does not say {why:?}\n{text}");
}

#[test]
fn batch_and_heads_as_one_axis_run() {
    for (batch, past, new) in [(2, 7, 4), (1, 0, 1), (5, 70, 1), (2, 129, 3), (1, 64, 65)] {
        kernel(MERGED, &merged_feeds(batch, past, new));
    }
    let one_mask = with(merged_feeds(2, 7, 4), "mask", filled(&[1, 1, 4, 11], 8));
    kernel(MERGED, &one_mask);
}

#[test]
fn against_sums_in_float64() {
    let feeds = merged_feeds(2, 7, 4);
    let context = RuntimeContext::default();
    let given = feeds.iter().map(|(name, value)| (*name, value.clone()));
    let got = session(MERGED, true).run(&context, given).unwrap();
    let (k, v) = (
        numbers(got.tensor("present_k").unwrap()),
        numbers(got.tensor("present_v").unwrap()),
    );
    let (q, mask) = (numbers(&feeds[0].1), numbers(&feeds[5].1));
    let y = got.tensor("y").unwrap();
    assert_eq!(y.shape(), [6, 4, 5]);
    let y = numbers(y);
    for n in 0..6 {
        for i in 0..4 {
            let score = |j: usize| {
                let terms = (0..8).map(|d| q[(n * 4 + i) * 8 + d] * k[(n * 11 + j) * 8 + d]);
                0.35 * terms.sum::<f64>() + mask[(n / 3 * 4 + i) * 11 + j]
            };
            let weights: Vec<f64> = (0..11).map(|j| score(j).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for c in 0..5 {
                let terms = weights.iter().enumerate();
                let total: f64 = terms.map(|(j, w)| w * v[(n * 11 + j) * 5 + c]).sum();
                let got = y[(n * 4 + i) * 5 + c];
                assert!((got - total / sum).abs() <= 1e-5, "{got} {}", total / sum);
            }
        }
    }
}

#[test]
fn masks_in_three_axes_or_in_four() {
    let feeds = merged_feeds(2, 7, 4);
    let no_view = [
        ("scores = Reshape (product, four)", ""),
        ("masked = Add (scores, mask)", ""),
        (
            "flat = Reshape (masked, three)",
            "flat = Add (product, mask)",
        ),
    ];
    for shape in [&[4usize, 11][..], &[1, 4, 11], &[6, 4, 11], &[6, 1, 11]] {
        let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
        let declared = format!("float[{}] mask", dims.join(","));
        let text = merged(&no_view).replace("float[M,1,S,T] mask", &declared);
        kernel(&text, &with(feeds.clone(), "mask", filled(shape, 6)));
    }
    // The softmax in four axes, and a number that stands in for masked scores.
    let text = merged(&[
        (
            "masked = Add (scores, mask)",
            "keep = LessOrEqual (mask, zero) put = Where (keep, scores, low) soft = Softmax <axis = -1> (put)",
        ),
        (
            "flat = Reshape (masked, three)",
            "weights = Reshape (soft, three)",
        ),
        ("weights = Softmax <axis = -1> (flat)", ""),
    ]);
    kernel(&text, &feeds);
    // Without a mask there is nothing between the products but the softmax.
    let text = merged(&[
        ("scores = Reshape (product, four)", ""),
        ("masked = Add (scores, mask)", ""),
        (
            "flat = Reshape (masked, three)",
            "flat = Identity (product)",
        ),
    ]);
    kernel(&text, &feeds);
    // Inferred axes.
    let text = merged(&[
        (
            "four = Concat <axis = 0> (batch1, heads1, length1, total1)",
            "four = Concat <axis = 0> (minus, heads1, length1, total1)",
        ),
        (
            "three = Concat <axis = 0> (both1, length1, total1)",
            "three = Concat <axis = 0> (both1, length1, minus)",
        ),
    ]);
    kernel(&text, &feeds);
}

#[test]
fn caches_of_three_axes_run() {
    // As torch's MultiheadAttention is exported: positions first, then all heads of all batch rows.
    let text = r#"
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[S,N,8] q3, float[T,N,8] k3, float[T,N,5] v3, float[1,S,T] mask) => (float[N,S,5] y)
        <float scale = {0.4}, float one = {1.0}>
        {
          q = Transpose <perm = [1, 0, 2]> (q3)
          v = Transpose <perm = [1, 0, 2]> (v3)
          scaled = Mul (q, scale)
          k_t = Transpose <perm = [1, 2, 0]> (k3)
          product = MatMul (scaled, k_t)
          scores = Mul (product, one)
          masked = Add (scores, mask)
          weights = Softmax <axis = -1> (masked)
          y = MatMul (weights, v)
        }"#;
    let given = [
        ("q3", filled(&[4, 6, 8], 1)),
        ("k3", filled(&[11, 6, 8], 2)),
        ("v3", filled(&[11, 6, 5], 3)),
        ("mask", filled(&[1, 4, 11], 4)),
    ];
    kernel(text, &given);
    // Scores in four axes say what batch and heads are.
    let viewed = text
        .replace("float[1,S,T] mask", "float[2,1,S,T] mask")
        .replace(
            "masked = Add (scores, mask)",
            "four = Constant <value_ints = [2, 3, 4, 11]> () scores4 = Reshape (scores, four)
             masked4 = Add (scores4, mask) three = Constant <value_ints = [6, 4, 11]> ()
             masked = Reshape (masked4, three)",
        );
    let mut given = given;
    given[3].1 = filled(&[2, 1, 4, 11], 5);
    kernel(&viewed, &given);
    // Each in four axes of its own.
    for (four, why) in [
        ("[2, 3, 11, 4]", "the shapes of the call"),
        ("[2, 3, 0, 11]", "axes that are not known"),
        ("[24, 11]", "axes that are not known"),
    ] {
        let other = viewed
            .replace("[2, 3, 4, 11]", four)
            .replace("float[2,1,S,T] mask", "float[1] mask");
        let mut given = given.clone();
        given[3].1 = filled(&[1], 5);
        nodes(&other, &given, why);
    }
}

#[test]
fn repeated_heads_in_three_axes_run() {
    let text = r#"
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[6,S,8] q, float[B,1,T,8] k, float[B,1,T,5] v) => (float[N,S,5] y)
        <int64[1] at2 = {2}, int64[5] wide = {1, 1, 3, 1, 1}, int64[3] k_at = {6, -1, 8}, int64[3] v_at = {6, -1, 5}>
        {
          k5 = Unsqueeze (k, at2) k_copies = Expand (k5, wide) k3 = Reshape (k_copies, k_at)
          v5 = Unsqueeze (v, at2) v_copies = Expand (v5, wide) v3 = Reshape (v_copies, v_at)
          k_t = Transpose <perm = [0, 2, 1]> (k3)
          product = MatMul (q, k_t) weights = Softmax <axis = -1> (product) y = MatMul (weights, v3)
        }"#;
    let given = [
        ("q", filled(&[6, 4, 8], 1)),
        ("k", filled(&[2, 1, 11, 8], 2)),
        ("v", filled(&[2, 1, 11, 5], 3)),
    ];
    assert_eq!(kernel(text, &given), 10);
}

#[test]
fn other_axes_are_left_to_the_nodes() {
    let feeds = merged_feeds(2, 7, 4);
    // Heads before batch: the same elements in an order that the mask reads otherwise.
    let swapped = [(
        "four = Concat <axis = 0> (batch1, heads1, length1, total1)",
        "four = Concat <axis = 0> (heads1, batch1, length1, total1)",
    )];
    let given = with(feeds.clone(), "mask", filled(&[1, 1, 4, 11], 6));
    nodes(&merged(&swapped), &given, "the shapes of the call");
    // Values whose batch and heads are cut elsewhere.
    let cut = [(
        "v_at = Concat <axis = 0> (both1, minus, five)",
        "v_at = Constant <value_ints = [3, -1, 5]> ()",
    )];
    let given = merged_feeds(1, 7, 4);
    kernel(&merged(&cut), &given);
    nodes(
        &merged(&[(
            "weights = Softmax <axis = -1> (flat)",
            "weights = Softmax <axis = 0> (flat)",
        )]),
        &feeds,
        "Softmax runs over axis 0",
    );
    // A mask of a batch of its own makes the scores larger.
    let larger = [
        ("scores = Reshape (product, four)", ""),
        ("masked = Add (scores, mask)", ""),
        (
            "flat = Reshape (masked, three)",
            "flat = Add (product, mask)",
        ),
        ("float[N,S,5] y", "float[X,N,S,5] y"),
    ];
    let given = with(feeds, "mask", filled(&[2, 1, 4, 11], 6));
    nodes(&merged(&larger), &given, "the mask does not fit");
}
