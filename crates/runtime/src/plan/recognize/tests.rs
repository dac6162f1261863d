//! Graphs that are attention in every respect but one, and what becomes of them; numbers are compared with the same graph
//! run node by node.

mod low_fills;
mod three_axes;
mod types;

use crate::{AttentionForm, RuntimeContext, RuntimeSession, RuntimeSessionOptions};
use refeed_graph::{LoadOptions, Model, parser};
use refeed_values::{DType, Tensor};

/// Attention with grouped heads, as exporters write it: 2 key/value heads, 4 query heads. Pairwise different extents.
const GROUPED: &str = r#"
<ir_version: 10, opset_import: ["" : 18]>
g (float[B,4,S,8] q, float[B,2,P,8] past_k, float[B,2,P,6] past_v, float[B,2,S,8] k, float[B,2,S,6] v,
   float[M,1,S,T] mask)
  => (float[B,4,S,6] y, float[B,2,T,8] present_k, float[B,2,T,6] present_v)
<int64[1] at2 = {2}, int64[1] from0 = {0}, int64[1] to1 = {1}, int64[1] to2 = {2}, int64[1] from2 = {2},
 int64[1] to4 = {4}, int64[1] twice = {2}, int64[1] all = {4}, float scale = {0.5}, float zero = {0.0},
 float[1,4,1,1] each = {0.5, 0.25, 0.125, 1.0}, float low = {-3.4028235e38}>
{
  present_k = Concat <axis = -2> (past_k, k)
  present_v = Concat <axis = -2> (past_v, v)
  k_shape = Shape (present_k)
  k_outer = Slice (k_shape, from0, to2)
  k_batch = Slice (k_shape, from0, to1)
  k_inner = Slice (k_shape, from2, to4)
  k5 = Unsqueeze (present_k, at2)
  k_wide = Concat <axis = 0> (k_outer, twice, k_inner)
  k_copies = Expand (k5, k_wide)
  k_whole = Concat <axis = 0> (k_batch, all, k_inner)
  k4 = Reshape (k_copies, k_whole)
  k_t = Transpose <perm = [0, 1, 3, 2]> (k4)
  v_shape = Shape (present_v)
  v_outer = Slice (v_shape, from0, to2)
  v_batch = Slice (v_shape, from0, to1)
  v_inner = Slice (v_shape, from2, to4)
  v5 = Unsqueeze (present_v, at2)
  v_wide = Concat <axis = 0> (v_outer, twice, v_inner)
  v_copies = Expand (v5, v_wide)
  v_whole = Concat <axis = 0> (v_batch, all, v_inner)
  v4 = Reshape (v_copies, v_whole)
  product = MatMul (q, k_t)
  scores = Mul (product, scale)
  masked = Add (scores, mask)
  weights = Softmax <axis = -1> (masked)
  y = MatMul (weights, v4)
}
"#;

fn session(text: &str, recognize_attention: bool) -> RuntimeSession {
    let proto = parser::parse_model(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let model = Model::from_proto(proto, &LoadOptions::default()).unwrap();
    let options = RuntimeSessionOptions {
        recognize_attention,
        ..RuntimeSessionOptions::default()
    };
    RuntimeSession::new(model, options).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Numbers between -2 and 2 that differ from their neighbours.
fn filled(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count)
        .map(|i| ((i * 37 + seed * 113 + 11) % 101) as f32 / 25.0 - 2.0)
        .collect();
    Tensor::from_slice(shape, &values).unwrap()
}

/// Extents of a call.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    mask_batch: usize,
    past: usize,
    new: usize,
}

const SIZES: Sizes = Sizes {
    batch: 2,
    mask_batch: 2,
    past: 5,
    new: 3,
};

fn feeds(sizes: Sizes) -> Vec<(&'static str, Tensor)> {
    let Sizes {
        batch,
        mask_batch,
        past,
        new,
    } = sizes;
    vec![
        ("q", filled(&[batch, 4, new, 8], 1)),
        ("past_k", filled(&[batch, 2, past, 8], 2)),
        ("past_v", filled(&[batch, 2, past, 6], 3)),
        ("k", filled(&[batch, 2, new, 8], 4)),
        ("v", filled(&[batch, 2, new, 6], 5)),
        ("mask", filled(&[mask_batch, 1, new, past + new], 6)),
    ]
}

fn with(
    mut feeds: Vec<(&'static str, Tensor)>,
    name: &str,
    tensor: Tensor,
) -> Vec<(&'static str, Tensor)> {
    for (held, value) in &mut feeds {
        if *held == name {
            *value = tensor.clone();
        }
    }
    feeds
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    match tensor.dtype() {
        DType::Double => tensor.view::<f64>().unwrap().to_vec(),
        DType::Float16 => {
            let half = tensor.view::<half::f16>().unwrap();
            half.iter().map(f64::from).collect()
        }
        DType::Bfloat16 => {
            let half = tensor.view::<half::bf16>().unwrap();
            half.iter().map(f64::from).collect()
        }
        DType::Int64 => {
            let whole = tensor.view::<i64>().unwrap();
            whole.iter().map(|n| n as f64).collect()
        }
        _ => tensor
            .view::<f32>()
            .unwrap()
            .iter()
            .map(f64::from)
            .collect(),
    }
}

/// Runs a graph both ways and compares every output: exactly, or to rounding. Returns what was found.
fn both(text: &str, feeds: &[(&'static str, Tensor)], exact: bool) -> Vec<AttentionForm> {
    compared(text, feeds, if exact { 0.0 } else { 1e-5 })
}

/// As `both`, with what may differ of a number, or of 1 when that is larger.
fn compared(text: &str, feeds: &[(&'static str, Tensor)], tolerance: f64) -> Vec<AttentionForm> {
    let (ours, written) = (session(text, true), session(text, false));
    assert!(written.attention().is_empty());
    let context = RuntimeContext::default();
    let given = || feeds.iter().map(|(name, value)| (*name, value.clone()));
    match (ours.run(&context, given()), written.run(&context, given())) {
        (Ok(got), Ok(want)) => {
            for (name, value) in want.iter() {
                let (Some(got), Some(want)) = (got.tensor(name), value.tensor()) else {
                    panic!("{name}: no tensor");
                };
                assert_eq!(got.shape(), want.shape(), "{name}");
                for (a, b) in numbers(got).into_iter().zip(numbers(want)) {
                    let same = a == b || a.is_nan() && b.is_nan();
                    assert!(
                        same || (a - b).abs() <= tolerance * b.abs().max(1.0),
                        "{name}: {a} {b}\n{text}"
                    );
                }
            }
        }
        (Err(got), Err(want)) => assert_eq!(got.to_string(), want.to_string()),
        (got, want) => panic!("{:?} {:?}", got.err(), want.err()),
    }
    ours.attention().to_vec()
}

/// The graph with some lines replaced.
fn changed(changes: &[(&str, &str)]) -> String {
    let mut text = GROUPED.to_string();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    text
}

/// A graph whose attention must go to the kernel, in every call.
fn runs(changes: &[(&str, &str)], feeds: &[(&'static str, Tensor)]) -> AttentionForm {
    let text = changed(changes);
    let mut forms = both(&text, feeds, false);
    assert_eq!(forms.len(), 1, "{text}");
    let form = forms.remove(0);
    assert_eq!(form.obstacle.as_deref(), None, "{text}");
    assert_eq!(form.declined(), None, "{text}");
    form
}

/// A graph whose attention must stay as it is written, with this said of it.
fn stays(changes: &[(&str, &str)], why: &str) {
    let text = changed(changes);
    let forms = both(&text, &feeds(SIZES), true);
    let [form] = &forms[..] else {
        panic!("{forms:?} {text}");
    };
    let obstacle = form.obstacle.as_deref().unwrap_or("none");
    assert!(obstacle.contains(why), "{obstacle:?} does not say {why:?}");
    assert_eq!(form.nodes, 0);
    assert!(form.to_string().contains(obstacle));
}

/// A graph that is recognised, and whose nodes run all the same in this call.
fn declines(changes: &[(&str, &str)], feeds: &[(&'static str, Tensor)], why: &str) {
    let text = changed(changes);
    let forms = both(&text, feeds, true);
    let [form] = &forms[..] else {
        panic!("{forms:?} {text}");
    };
    assert_eq!(form.obstacle.as_deref(), None, "{text}");
    let (calls, said) = form.declined().unwrap_or((0, "nothing"));
    assert!(said.contains(why), "{said:?} does not say {why:?}");
    assert_eq!(calls, 1);
    assert!(
        form.to_string()
            .ends_with(&format!("; as written in 1 call: {said}"))
    );
}

#[test]
fn grouped_heads_run_through_the_kernel_and_no_node_of_theirs_is_left() {
    let form = runs(&[], &feeds(SIZES));
    // All but the two Concats that make the caches.
    assert_eq!(form.nodes, 24);
    assert_eq!(
        form.to_string(),
        "attention at node 25 (MatMul): one kernel for 24 nodes"
    );
    for (past, new) in [(0, 1), (0, 7), (70, 1), (129, 2), (64, 65)] {
        let sizes = Sizes { past, new, ..SIZES };
        runs(&[], &feeds(sizes));
    }
    let one_mask = Sizes {
        mask_batch: 1,
        ..SIZES
    };
    runs(&[], &feeds(one_mask));
}

#[test]
fn factors_may_stand_anywhere_before_the_mask() {
    let all = feeds(SIZES);
    runs(
        &[(
            "scores = Mul (product, scale)",
            "scores = Div (product, scale)",
        )],
        &all,
    );
    runs(
        &[(
            "scores = Mul (product, scale)",
            "scores = Mul (scale, product)",
        )],
        &all,
    );
    runs(
        &[(
            "scores = Mul (product, scale)",
            "scores = Identity (product)",
        )],
        &all,
    );
    // A square root of the factor on both sides, as torch decomposes its attention.
    let split = [
        (
            "product = MatMul (q, k_t)",
            "q_s = Mul (q, scale) k_s = Mul (k_t, scale) product = MatMul (q_s, k_s)",
        ),
        (
            "scores = Mul (product, scale)",
            "scores = Identity (product)",
        ),
    ];
    runs(&split, &all);
    runs(
        &[(
            "product = MatMul (q, k_t)",
            "q_s = Div (q, scale) product = MatMul (q_s, k_t)",
        )],
        &all,
    );
    runs(
        &[(
            "masked = Add (scores, mask)",
            "twice_scaled = Mul (scores, scale) masked = Add (mask, twice_scaled)",
        )],
        &all,
    );
}

#[test]
fn masks_may_be_absent_added_or_put_in() {
    let all = feeds(SIZES);
    runs(
        &[("masked = Add (scores, mask)", "masked = Identity (scores)")],
        &all,
    );
    for (condition, fill) in [
        ("keeps", "low"),
        ("drops", "low"),
        ("keeps", "infinite"),
        ("drops", "infinite"),
    ] {
        let place = if condition == "keeps" {
            "(keep, scores, FILL)"
        } else {
            "(keep, FILL, scores)"
        };
        let put = format!(
            "infinite = Constant <value_float = -inf> () keep = LessOrEqual (mask, LIMIT) masked = Where {place}"
        );
        // Every query sees a key: the limits leave about half of them.
        let put = put.replace("FILL", fill).replace("LIMIT", "zero");
        runs(&[("masked = Add (scores, mask)", &put)], &all);
        let both_ways = put.replace("masked =", "put =") + " masked = Add (put, mask)";
        runs(&[("masked = Add (scores, mask)", &both_ways)], &all);
        let added_first = put.replace("scores", "sums");
        let added_first = format!("sums = Add (scores, mask) {added_first}");
        runs(&[("masked = Add (scores, mask)", &added_first)], &all);
    }
}

#[test]
fn a_mask_of_the_lowest_number_leaves_its_rows_alone() {
    // Rows in which all keys have the lowest number weigh all of them alike, in either form.
    let mut values = vec![0.0f32; 2 * 3 * 8];
    values[8..16].fill(f32::MIN);
    values[16..20].fill(f32::MIN);
    let mask = Tensor::from_slice(&[2, 1, 3, 8], &values).unwrap();
    runs(&[], &with(feeds(SIZES), "mask", mask));
}

#[test]
fn rows_without_a_key_are_nan_or_zero_as_the_nodes_have_it() {
    let mut values = vec![0.0f32; 2 * 3 * 8];
    values[8..16].fill(f32::NEG_INFINITY);
    values[16..19].fill(f32::NEG_INFINITY);
    let mask = Tensor::from_slice(&[2, 1, 3, 8], &values).unwrap();
    let all = with(feeds(SIZES), "mask", mask);
    declines(&[], &all, "a query sees no key");
    let guarded = [(
        "y = MatMul (weights, v4)",
        "absent = IsNaN (weights) kept = Where (absent, zero, weights) y = MatMul (kept, v4)",
    )];
    let form = runs(&guarded, &all);
    assert_eq!(form.nodes, 26);
}

#[test]
fn numbers_that_are_not_finite_are_left_to_the_nodes() {
    for number in [f32::NAN, f32::INFINITY] {
        for (name, shape) in [
            ("k", [2usize, 2, 3, 8]),
            ("v", [2, 2, 3, 6]),
            ("q", [2, 4, 3, 8]),
        ] {
            let mut values = numbers(&filled(&shape, 9))
                .iter()
                .map(|x| *x as f32)
                .collect::<Vec<_>>();
            values[7] = number;
            let tensor = Tensor::from_slice(&shape, &values).unwrap();
            declines(&[], &with(feeds(SIZES), name, tensor), "not finite");
        }
    }
}

#[test]
fn other_ways_to_the_same_axes_run() {
    let all = feeds(SIZES);
    // Through three axes, as torch's exporter transposes keys.
    let flat = [(
        "k_t = Transpose <perm = [0, 1, 3, 2]> (k4)",
        "k4_shape = Shape (k4) k4_inner = Slice (k4_shape, from2, to4) minus = Constant <value_ints = [-1]> ()
         k4_outer = Slice (k4_shape, from0, to2) k3_at = Concat <axis = 0> (minus, k4_inner)
         k3 = Reshape (k4, k3_at) k3_t = Transpose <perm = [0, 2, 1]> (k3)
         k_length = Slice (k4_inner, from0, to1) k_size = Slice (k4_inner, to1, to2)
         back_at = Concat <axis = 0> (k4_outer, k_size, k_length) k_t = Reshape (k3_t, back_at)",
    )];
    runs(&flat, &all);
    // Extents that a Reshape infers or takes over.
    runs(
        &[(
            "k_whole = Concat <axis = 0> (k_batch, all, k_inner)",
            "k_whole = Constant <value_ints = [2, 4, -1, 8]> ()",
        )],
        &all,
    );
    runs(
        &[(
            "k_whole = Concat <axis = 0> (k_batch, all, k_inner)",
            "k_whole = Constant <value_ints = [0, 4, -1, 8]> ()",
        )],
        &all,
    );
    // The extents that Expand keeps may be 1, or chosen by a Where, as the older exporter writes it.
    let chosen = [(
        "k_copies = Expand (k5, k_wide)",
        "five = Shape (k_wide) ones = ConstantOfShape <value = int64[1] {1}> (five)
         minus = Constant <value_int = -1> () asked = Mul (ones, minus) equal = Equal (k_wide, asked)
         k_last = Where (equal, ones, k_wide) k_copies = Expand (k5, k_last)",
    )];
    runs(&chosen, &all);
    runs(
        &[(
            "k_wide = Concat <axis = 0> (k_outer, twice, k_inner)",
            "k_wide = Constant <value_ints = [1, 1, 2, 1, 1]> ()",
        )],
        &all,
    );
}

#[test]
fn what_is_almost_attention_stays() {
    stays(
        &[("<axis = -1> (masked)", "<axis = 2> (masked)")],
        "Softmax runs over axis 2",
    );
    stays(
        &[
            (
                "masked = Add (scores, mask)",
                "sums = Add (product, mask) masked = Mul (sums, scale)",
            ),
            (
                "scores = Mul (product, scale)",
                "scores = Identity (product)",
            ),
        ],
        "scaled behind the mask",
    );
    stays(
        &[(
            "scores = Mul (product, scale)",
            "scores = Mul (product, each)",
        )],
        "multiplied by more than one number",
    );
    stays(
        &[(
            "scores = Mul (product, scale)",
            "scores = Div (scale, product)",
        )],
        "or divide one",
    );
    stays(
        &[(
            "masked = Add (scores, mask)",
            "sums = Add (scores, mask) masked = Add (sums, mask)",
        )],
        "two masks",
    );
    stays(
        &[("masked = Add (scores, mask)", "masked = Tanh (scores)")],
        "the scores come from Tanh",
    );
    stays(
        &[(
            "masked = Add (scores, mask)",
            "keep = LessOrEqual (mask, zero) masked = Where (keep, scores, mask)",
        )],
        "something else than one number",
    );
    // The mask is computed from the scores.
    stays(
        &[(
            "masked = Add (scores, mask)",
            "own = Abs (scores) masked = Add (scores, own)",
        )],
        "also read by Abs",
    );
}

#[test]
fn a_mask_behind_the_softmax_is_no_attention() {
    let text = changed(&[
        ("masked = Add (scores, mask)", "masked = Identity (scores)"),
        (
            "weights = Softmax <axis = -1> (masked)",
            "soft = Softmax <axis = -1> (masked) weights = Add (soft, mask)",
        ),
    ]);
    assert!(both(&text, &feeds(SIZES), true).is_empty());
}

#[test]
fn what_others_see_stays() {
    let seen = |name: &str, line: &str| {
        changed(&[
            (
                "=> (float[B,4,S,6] y,",
                &format!("=> (float[a,b,c,d] {name}, float[B,4,S,6] y,"),
            ),
            (
                "  y = MatMul (weights, v4)\n",
                &format!("  y = MatMul (weights, v4)\n{line}"),
            ),
        ])
    };
    for (name, line, why) in [
        ("weights", "", "what Softmax makes on the way is an output"),
        (
            "extra",
            "extra = Neg (scores)\n",
            "what Mul makes on the way is also read by Neg",
        ),
    ] {
        let forms = both(&seen(name, line), &feeds(SIZES), true);
        let obstacle = forms[0].obstacle.as_deref().unwrap_or("none");
        assert_eq!(obstacle, why);
    }
    // Repeated heads that somebody reads are taken as they are.
    let forms = both(
        &seen("extra", "extra = Neg (k_copies)\n"),
        &feeds(SIZES),
        false,
    );
    assert_eq!((forms[0].obstacle.as_deref(), forms[0].nodes), (None, 6));
    // A cache that is an output, or a shape that others need as well, is no obstacle.
    let text = changed(&[(
        "=> (float[B,4,S,6] y,",
        "=> (int64[2] k_inner, float[B,4,S,6] y,",
    )]);
    let forms = both(&text, &feeds(SIZES), false);
    assert_eq!((forms[0].obstacle.as_deref(), forms[0].nodes), (None, 22));
}

#[test]
fn shapes_of_what_lies_on_the_way_are_told_from_the_cache() {
    // The older exporter cuts its mask to the length of the repeated keys.
    let lines = "repeated = Shape (k4) length = Slice (repeated, to2, from3) cut = Slice (mask, from0, length, from3, to1)
         masked = Add (scores, cut)";
    let text = changed(&[
        ("masked = Add (scores, mask)", lines),
        (
            "int64[1] at2 = {2}",
            "int64[1] from3 = {3}, int64[1] at2 = {2}",
        ),
        (
            "=> (float[B,4,S,6] y,",
            "=> (int64[4] repeated, float[B,4,S,6] y,",
        ),
    ]);
    let longer = with(feeds(SIZES), "mask", filled(&[2, 1, 3, 11], 6));
    let text = text.replace("float[M,1,S,T] mask", "float[M,1,S,L] mask");
    let forms = both(&text, &longer, false);
    assert_eq!(
        (forms[0].obstacle.as_deref(), forms[0].declined()),
        (None, None),
        "{forms:?}"
    );
}

#[test]
fn other_axes_stay() {
    let square = |text: &str| {
        text.replace(
            "k_t = Transpose <perm = [0, 1, 3, 2]> (k4)",
            "k_t = Identity (k4)",
        )
    };
    // As many positions as the keys are wide, so that the product fits without the transposition.
    let text = square(GROUPED);
    let forms = both(&text, &feeds(SIZES), true);
    assert!(
        forms[0]
            .obstacle
            .as_deref()
            .unwrap()
            .contains("column by column"),
        "{forms:?}"
    );
    // Copies of all heads one after the other: query head h would use key head h % 2.
    let tiled = [
        (
            "k5 = Unsqueeze (present_k, at2)",
            "k5 = Unsqueeze (present_k, to1)",
        ),
        (
            "k_wide = Concat <axis = 0> (k_outer, twice, k_inner)",
            "k_wide = Concat <axis = 0> (k_batch, twice, twice, k_inner)",
        ),
    ];
    // The kernel then gets what Expand and Reshape make.
    let form = runs(&tiled, &feeds(SIZES));
    assert_eq!(form.nodes, 6);
    // Four positions that stand where the heads were: the same product, of other axes, which the kernel computes as well.
    let swapped = [(
        "k_t = Transpose <perm = [0, 1, 3, 2]> (k4)",
        "k_t = Transpose <perm = [0, 2, 3, 1]> (k4)",
    )];
    let sizes = Sizes {
        past: 1,
        new: 3,
        ..SIZES
    };
    runs(&swapped, &feeds(sizes));
}

#[test]
fn shapes_that_only_seem_to_fit_are_left_to_the_nodes() {
    // Twice the batch, half the heads: the product of the extents is the same.
    let regrouped = [(
        "v_whole = Concat <axis = 0> (v_batch, all, v_inner)",
        "v_whole = Constant <value_ints = [1, 4, -1, 6]> ()",
    )];
    declines(&regrouped, &feeds(SIZES), "the shapes of the call");
    // The mask has a batch of its own.
    let one = Sizes { batch: 1, ..SIZES };
    declines(&[], &feeds(one), "the mask does not fit");
    // Keys and values repeated unequally: 1 head 4 times, and 2 heads twice.
    let alone = GROUPED
        .replace("float[B,2,P,6] past_v", "float[B,1,P,6] past_v")
        .replace("float[B,2,S,6] v", "float[B,1,S,6] v")
        .replace("float[B,2,T,6] present_v", "float[B,1,T,6] present_v")
        .replace("(v_outer, twice, v_inner)", "(v_outer, all, v_inner)");
    let sizes = feeds(SIZES);
    let sizes = with(sizes, "past_v", filled(&[2, 1, 5, 6], 3));
    let sizes = with(sizes, "v", filled(&[2, 1, 3, 6], 5));
    let forms = both(&alone, &sizes, true);
    assert!(
        forms[0]
            .declined()
            .unwrap()
            .1
            .contains("the shapes of the call"),
        "{forms:?}"
    );
}

#[test]
fn errors_of_the_nodes_are_those_of_the_graph() {
    // A Reshape that cannot be done is found by the Reshape.
    let text = changed(&[(
        "v_whole = Concat <axis = 0> (v_batch, all, v_inner)",
        "v_whole = Constant <value_ints = [3, 4, -1, 6]> ()",
    )]);
    both(&text, &feeds(SIZES), true);
}

#[test]
fn heads_that_are_not_repeated_run_and_a_single_one_serves_all() {
    let plain = r#"
        <ir_version: 10, opset_import: ["" : 13]>
        g (float[B,S,12] q3, float[B,T,12] k3, float[B,T,15] v3) => (float[B,3,S,5] y)
        <int64[4] cut = {0, 0, 3, -1}, float root = {2.0}>
        {
          q4 = Reshape (q3, cut) q = Transpose <perm = [0, 2, 1, 3]> (q4)
          k4 = Reshape (k3, cut) k_t = Transpose <perm = [0, 2, 3, 1]> (k4)
          v4 = Reshape (v3, cut) v = Transpose <perm = [0, 2, 1, 3]> (v4)
          product = MatMul (q, k_t) scores = Div (product, root) weights = Softmax (scores) y = MatMul (weights, v)
        }"#;
    let given = [
        ("q3", filled(&[2, 4, 12], 1)),
        ("k3", filled(&[2, 7, 12], 2)),
        ("v3", filled(&[2, 7, 15], 3)),
    ];
    let forms = both(plain, &given, false);
    assert_eq!(
        (forms[0].obstacle.as_deref(), forms[0].declined()),
        (None, None),
        "{forms:?}"
    );
    let shared = r#"
        <ir_version: 10, opset_import: ["" : 13]>
        g (float[B,5,S,4] q, float[B,1,T,4] k, float[B,1,T,3] v) => (float[B,5,S,3] y)
        {
          k_t = Transpose <perm = [0, 1, 3, 2]> (k)
          product = MatMul (q, k_t) weights = Softmax <axis = 3> (product) y = MatMul (weights, v)
        }"#;
    let given = [
        ("q", filled(&[2, 5, 3, 4], 1)),
        ("k", filled(&[2, 1, 9, 4], 2)),
        ("v", filled(&[2, 1, 9, 3], 3)),
    ];
    let forms = both(shared, &given, false);
    assert_eq!(
        (forms[0].obstacle.as_deref(), forms[0].declined()),
        (None, None),
        "{forms:?}"
    );
}

#[test]
fn a_branch_is_looked_at_as_well() {
    let text = r#"
        <ir_version: 10, opset_import: ["" : 18]>
        g (bool c, float[1,2,S,4] q, float[1,2,T,4] k, float[1,2,T,3] v) => (float[1,2,S,3] y)
        {
          y = If (c) <
            then_branch = one () => (float[1,2,S,3] out) {
              k_t = Transpose <perm = [0, 1, 3, 2]> (k)
              product = MatMul (q, k_t) weights = Softmax <axis = -1> (product) out = MatMul (weights, v)
            },
            else_branch = two () => (float[1,2,S,3] out) {
              k_t = Transpose <perm = [0, 1, 3, 2]> (k) scaled = Mul (q, q)
              product = MatMul (scaled, k_t) weights = Softmax <axis = -1> (product) out = MatMul (weights, v)
            }
          >
        }"#;
    for flag in [true, false] {
        let c = Tensor::from_slice(&[], &[u8::from(flag)])
            .unwrap()
            .reinterpret(DType::Bool)
            .unwrap();
        let given = [
            ("c", c),
            ("q", filled(&[1, 2, 3, 4], 1)),
            ("k", filled(&[1, 2, 6, 4], 2)),
            ("v", filled(&[1, 2, 6, 3], 3)),
        ];
        let forms = both(text, &given, false);
        assert_eq!(forms.len(), 2);
        assert!(
            forms
                .iter()
                .all(|form| form.obstacle.is_none() && form.declined().is_none()),
            "{forms:?}"
        );
        assert!(
            forms[0].node.to_string().contains("then_branch"),
            "{}",
            forms[0]
        );
    }
}
