//! The type rules of single nodes: against what the official package infers, with symbolic extents, and refused.

#![allow(clippy::unwrap_used, reason = "tests")]

use refeed_graph::parser::parse_graph;
use refeed_graph::shape_inference::{InferenceOptions, Inferred, infer_shapes};
use refeed_graph::types::{Dim, TensorType, ValueInfo, ValueType};
use refeed_proto::{GraphProto, ModelProto, OperatorSetIdProto};

fn opset(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto {
        domain: Some(domain.to_string()),
        version: Some(version),
    }
}

/// Infers the types of a graph's outputs, whose declarations are left out.
fn infer(version: i64, mut graph: GraphProto) -> Inferred {
    for output in &mut graph.output {
        output.r#type = None;
    }
    let model = ModelProto {
        ir_version: Some(10),
        opset_import: vec![opset("", version), opset("ai.onnx.ml", 3)],
        graph: Some(graph),
        ..ModelProto::default()
    };
    let options = InferenceOptions {
        data_prop: true,
        ..InferenceOptions::default()
    };
    infer_shapes(&model, &options).unwrap()
}

fn outputs(inferred: &Inferred) -> Vec<ValueType> {
    let graph = inferred.model.graph.as_ref().unwrap();
    graph
        .output
        .iter()
        .map(|output| ValueInfo::from_proto(output).ty)
        .collect()
}

/// Whether a dimension was made up for one that is not known.
fn blank(dim: &Dim) -> bool {
    match dim {
        Dim::Unknown => true,
        Dim::Symbol(name) => name.starts_with("unk__"),
        Dim::Known(_) => false,
    }
}

fn tells(ours: &TensorType, wanted: &TensorType) -> bool {
    let dtype = wanted.dtype.is_none() || ours.dtype == wanted.dtype;
    let shape = match (&ours.shape, &wanted.shape) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(ours), Some(wanted)) => {
            let mut pairs = ours.iter().zip(wanted);
            ours.len() == wanted.len()
                && pairs.all(|(ours, wanted)| blank(wanted) || ours == wanted)
        }
    };
    dtype && shape
}

/// Whether a type says all that is wanted of it.
fn says(ours: &ValueType, wanted: &ValueType) -> bool {
    match (ours, wanted) {
        (ValueType::Tensor(ours), ValueType::Tensor(wanted)) => tells(ours, wanted),
        (ValueType::Sequence(ours), ValueType::Sequence(wanted))
        | (ValueType::Optional(ours), ValueType::Optional(wanted)) => says(ours, wanted),
        (ours, wanted) => ours == wanted,
    }
}

fn read(line: &str) -> (i64, GraphProto) {
    let (version, graph) = line.split_once(' ').unwrap();
    let graph = parse_graph(format!("g {graph}")).unwrap_or_else(|e| panic!("{line}: {e}"));
    (version.parse().unwrap(), graph)
}

#[test]
fn rules_say_what_the_official_ones_say() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/type_rules.txt"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let (mut count, mut wrong) = (0, Vec::new());
    for line in lines {
        count += 1;
        let (version, graph) = read(line);
        let wanted: Vec<ValueType> = graph
            .output
            .iter()
            .map(|output| ValueInfo::from_proto(output).ty)
            .collect();
        let inferred = infer(version, graph);
        for problem in &inferred.problems {
            wrong.push(format!("{line}\n  {problem}"));
        }
        for (ours, wanted) in outputs(&inferred).iter().zip(&wanted) {
            if !says(ours, wanted) {
                wrong.push(format!("{line}\n  {ours}, not {wanted}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 300, "{count}");
}

/// Graphs and the types of their outputs, written by hand: extents are expressions of the inputs' names.
const SYMBOLIC: &[(&str, &[&str])] = &[
    // caches grow
    (
        "13 (float[b,h,past,8] x, float[b,h,s,8] y) => (float[] z) { z = Concat <axis: int = 2> (x, y) }",
        &["FLOAT[b, h, past + s, 8]"],
    ),
    (
        "23 (float[b,4,s,6] q, float[b,2,s,6] k, float[b,2,s,6] v, float[b,2,p,6] pk, float[b,2,p,6] pv) => (float[] y, float[] nk, float[] nv) { y, nk, nv = Attention (q, k, v, , pk, pv) }",
        &[
            "FLOAT[b, 4, s, 6]",
            "FLOAT[b, 2, p + s, 6]",
            "FLOAT[b, 2, p + s, 6]",
        ],
    ),
    // windows
    (
        "22 (float[n,3,l] x, float[5,3,4] w) => (float[] y) { y = Conv <strides: ints = [2], pads: ints = [1, 2]> (x, w) }",
        &["FLOAT[n, 5, (l + 1) // 2]"],
    ),
    (
        "22 (float[n,3,l] x, float[5,3,3] w) => (float[] y) { y = Conv <pads: ints = [1, 1]> (x, w) }",
        &["FLOAT[n, 5, l]"],
    ),
    (
        "22 (float[n,3,l] x, float[3,5,4] w) => (float[] y) { y = ConvTranspose <strides: ints = [3]> (x, w) }",
        &["FLOAT[n, 5, 3 * l + 1]"],
    ),
    (
        "22 (float[n,3,l] x) => (float[] y) { y = MaxPool <kernel_shape: ints = [2], strides: ints = [2]> (x) }",
        &["FLOAT[n, 3, l // 2]"],
    ),
    (
        "22 (float[n,3,l] x) => (float[] y) { y = AveragePool <kernel_shape: ints = [3], strides: ints = [2], auto_pad: string = \"SAME_UPPER\"> (x) }",
        &["FLOAT[n, 3, (l + 1) // 2]"],
    ),
    // parts
    (
        "13 (float[n,6] x) => (float[] y) <int64[1] s = {1}, int64[1] e = {9223372036854775807}> { y = Slice (x, s, e) }",
        &["FLOAT[max(n - 1, 0), 6]"],
    ),
    (
        "18 (float[n] x) => (float[] y) <int64[1] p = {2}> { y = Tile (x, p) }",
        &["FLOAT[2 * n]"],
    ),
    (
        "18 (float[n] x) => (float[] y) <int64[2] p = {2,3}> { y = Pad (x, p) }",
        &["FLOAT[n + 5]"],
    ),
    (
        "18 (float[n,8,3] x) => (float[] y) { y = Flatten <axis: int = 2> (x) }",
        &["FLOAT[8 * n, 3]"],
    ),
    (
        "19 (float[n,3,h,w] x) => (float[] y) <float[4] s = {1.0,1.0,2.0,2.0}> { y = Resize (x, , s) }",
        &["FLOAT[n, 3, 2 * h, 2 * w]"],
    ),
    (
        "13 (float[n,8,h,w] x) => (float[] y) { y = DepthToSpace <blocksize: int = 2> (x) }",
        &["FLOAT[n, 2, 2 * h, 2 * w]"],
    ),
    (
        "17 (float[n,l,1] x, int64 step) => (float[] y) <int64 frame = {16}, int64 five = {5}> { y = STFT (x, five, , frame) }",
        &["FLOAT[n, (l + 4) // 5 - 3, 9, 2]"],
    ),
    // values of shape arithmetic
    (
        "13 (float[b,s,12] x) => (float[] y) <int64[1] h = {3}, int64[1] rest = {-1}, int64 zero = {0}, int64 one = {1}, int64[1] axis = {0}> { sh = Shape (x) b = Gather (sh, zero) s = Gather (sh, one) bb = Unsqueeze (b, axis) ss = Unsqueeze (s, axis) to = Concat <axis: int = 0> (bb, ss, h, rest) y = Reshape (x, to) }",
        &["FLOAT[b, s, 3, 4]"],
    ),
    (
        "13 (float[b,s] x, float[b,p] q) => (int64[] y) <int64 zero = {0}, int64 one = {1}> { a = Shape (x) c = Shape (q) s = Gather (a, one) p = Gather (c, one) t = Add (s, p) y = Range (zero, t, one) }",
        &["INT64[p + s]"],
    ),
    (
        "13 (float[n,4] x) => (float[] y) <int64[1] two = {2}> { sh = Shape (x) half = Div (sh, two) y = ConstantOfShape (half) }",
        &["FLOAT[n // 2, 2]"],
    ),
    (
        "13 (float[b,s,8] x) => (float[] y) <int64[1] from = {0}, int64[1] to = {2}, int64[1] last = {-1}> { sh = Shape (x) lead = Slice (sh, from, to) want = Concat <axis: int = 0> (lead, last) y = Reshape (x, want) }",
        &["FLOAT[b, s, 8]"],
    ),
    (
        "13 (float[b,1,8] x, float[b,s,8] r) => (float[] y) { sh = Shape (r) y = Expand (x, sh) }",
        &["FLOAT[b, s, 8]"],
    ),
    // -1 in the wanted shape stands for a dimension of the input: as exporters write it
    (
        "13 (float[b,1,8] x, float[b,s,8] r) => (float[] y) <int64[3] given = {-1,-1,8}, int64[3] none = {-1,-1,-1}> { sh = Shape (r) is = Equal (given, none) to = Where (is, sh, given) y = Expand (x, to) }",
        &["FLOAT[b, s, 8]"],
    ),
    (
        "18 (float[b,s,8] x) => (float[] y, float[] z) <int64 zero = {0}, int64[1] axis = {0}> { sh = Shape (x) n = ReduceProd <keepdims: int = 0> (sh) m = Unsqueeze (n, axis) y = Reshape (x, m) k = Size (x) kk = Unsqueeze (k, axis) z = Reshape (x, kk) }",
        &["FLOAT[8 * b * s]", "FLOAT[8 * b * s]"],
    ),
    (
        "18 (float[b,s,8] x) => (float[] y) { sh = Shape (x) b, s, d = Split <num_outputs: int = 3> (sh) to = Concat <axis: int = 0> (s, b, d) y = Reshape (x, to) }",
        &["FLOAT[s, b, 8]"],
    ),
    (
        "13 (float[p,8] x, float[q,8] r) => (float[] y, float[] z) <int64 zero = {0}, int64[1] axis = {0}, int64[1] w = {8}> { a = Shape (x) c = Shape (r) p = Gather (a, zero) q = Gather (c, zero) most = Max (p, q) least = Min (p, q) pp = Unsqueeze (most, axis) qq = Unsqueeze (least, axis) u = Concat <axis: int = 0> (pp, w) v = Concat <axis: int = 0> (qq, w) y = ConstantOfShape (u) z = ConstantOfShape (v) }",
        &["FLOAT[max(p, q), 8]", "FLOAT[min(p, q), 8]"],
    ),
    // loops
    (
        "16 (float[n,3] a, bool c) => (float[] y, float[] z) <int64 trips = {5}> { y, z = Loop (trips, , a) <body = b (int64 i, bool d, float[] s) => (bool e, float[] t, float[] u) { e = Identity (d) t = Relu (s) u = Neg (s) }> }",
        &["FLOAT[n, 3]", "FLOAT[5, n, 3]"],
    ),
    (
        "16 (float[n,3] a, float[2,3] more, bool c, int64 trips) => (float[] y) { y = Loop (trips, c, a) <body = b (int64 i, bool d, float[] s) => (bool e, float[] t) { e = Identity (d) t = Concat <axis: int = 0> (s, more) }> }",
        &["FLOAT[?, 3]"],
    ),
    (
        "16 (float[n,3] a, float[m] x) => (float[] y, float[] z) { y, z = Scan <num_scan_inputs: int = 1, body = b (float[] s, float[] e) => (float[] t, float[] u) { t = Add (s, e) u = Relu (t) }> (a, x) }",
        &["FLOAT[n, 3]", "FLOAT[m, n, 3]"],
    ),
];

/// A type whose made-up names are left out.
fn shown(ty: &ValueType) -> String {
    let mut ty = ty.clone();
    if let ValueType::Tensor(TensorType {
        shape: Some(shape), ..
    }) = &mut ty
    {
        for dim in shape.iter_mut().filter(|dim| blank(dim)) {
            *dim = Dim::Unknown;
        }
    }
    ty.to_string()
}

#[test]
fn extents_are_expressions_of_the_inputs() {
    let mut wrong = Vec::new();
    for (line, wanted) in SYMBOLIC {
        let (version, graph) = read(line);
        let inferred = infer(version, graph);
        let ours: Vec<String> = outputs(&inferred).iter().map(shown).collect();
        if !inferred.problems.is_empty() || ours != *wanted {
            wrong.push(format!(
                "{line}\n  {ours:?}, not {wanted:?}; {:?}",
                inferred.problems
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Nodes that no value can be of, and what the answer names.
const REFUSED: &[(&str, &str)] = &[
    (
        "22 (float[1,4,9] x, float[5,3,3] w) => (float[] y) { y = Conv (x, w) }",
        "X has 4 channels, W takes 3 in each of 1 groups",
    ),
    (
        "22 (float[1,4,2] x, float[5,4,3] w) => (float[] y) { y = Conv (x, w) }",
        "the kernel reaches over 3 elements, the padded input has 2",
    ),
    (
        "22 (float[1,4,9] x) => (float[] y) { y = MaxPool <kernel_shape: ints = [3], strides: ints = [0]> (x) }",
        "attribute `strides`",
    ),
    (
        "22 (float[1,4,9] x) => (float[] y) { y = MaxPool <kernel_shape: ints = [3], auto_pad: string = \"SAME\"> (x) }",
        "got SAME",
    ),
    (
        "13 (float[2,3] x, float[3,3] y) => (float[] z) { z = Concat <axis: int = 1> (x, y) }",
        "axis 0 of input 1",
    ),
    (
        "13 (float[2,3] x, double[2,3] y) => (float[] z) { z = Add (x, y) }",
        "expected elements of FLOAT, got DOUBLE",
    ),
    (
        "13 (float[2,3] x, float[4,3] y) => (float[] z) { z = Add (x, y) }",
        "does not broadcast",
    ),
    (
        "12 (float[2,3] x, float[4,5] y) => (float[] z) { z = Einsum <equation: string = \"ij,jk->ik\"> (x, y) }",
        "axis `j` is 4 at input 1, 3 before",
    ),
    (
        "12 (float[2,3] x) => (float[] z) { z = Einsum <equation: string = \"ij->ik\"> (x) }",
        "an output of letters that the inputs have",
    ),
    (
        "18 (float[7] x) => (float[] y, float[] z) <int64[2] s = {3,3}> { y, z = Split (x, s) }",
        "sizes that add up to 7, got 6",
    ),
    (
        "28 (float[2,3] a, float[2,4] b) => (float[] y) { y = SwiGLU (a, b) }",
        "axis 1 of input 1 is 3 here and 4 there",
    ),
    (
        "26 (float[2] x) => (int64[] y) { y = BitCast <to: int = 7> (x) }",
        "the bits of FLOAT cannot be read as elements of INT64",
    ),
    (
        "13 (float[2,3] x, int64[2,4] t) => (float[] y) { y = SoftmaxCrossEntropyLoss (x, t) }",
        "input 1: expected 1 axes, got 2",
    ),
    (
        "13 (float[2,3] x, float[4] s, int8[4] z) => (int8[] y) { y = QuantizeLinear (x, s, z) }",
        "the extent of the quantized axis is 3 here and 4 there",
    ),
    (
        "19 (float[2,3] x) => (float[] y) <float[1] s = {2.0}> { y = Resize (x, , s) }",
        "scales: expected 2 numbers, got 1",
    ),
    (
        "24 (float[2,3] x) => (float[] y) { y = SequenceAt (x, x) }",
        "expected a sequence, got FLOAT[2, 3]",
    ),
    (
        "11 (seq(float[2]) s, int64[2] t) => (seq(float[]) y) { y = SequenceInsert (s, t) }",
        "an element like the others of the sequence",
    ),
    (
        "15 (float[2] x) => (float[] y) { y = OptionalGetElement (x) }",
        "expected an optional value, got FLOAT[2]",
    ),
    (
        "16 (bool c, float[2] a, int64[2] b) => (float[] y) { y = If (c) <then_branch = t () => (float[] p) { p = Relu (a) }, else_branch = e () => (int64[] q) { q = Neg (b) }> }",
        "output 0 is FLOAT[2] in then_branch and INT64[2] in else_branch",
    ),
    (
        "16 (bool c, float[2] a) => (float[] y) { y = If (c) <then_branch = t () => (float[] p, float[] r) { p = Relu (a) r = Neg (a) }, else_branch = e () => (float[] q) { q = Neg (a) }> }",
        "attribute `then_branch`: expected 1 outputs, got 2",
    ),
    (
        "16 (float[2] a, float[3] x) => (float[] y) { y = Scan <num_scan_inputs: int = 3, body = b (float[] s, float[] e) => (float[] t) { t = Add (s, e) }> (a, x) }",
        "attribute `num_scan_inputs`",
    ),
    (
        "27 (float[2,5,20] q, float[2,5,12] k, float[2,5,16] v) => (float[] y, float[] s) { y, s = LinearAttention <q_num_heads: int = 3, kv_num_heads: int = 2> (q, k, v) }",
        "a multiple of kv_num_heads",
    ),
];

#[test]
fn nodes_that_cannot_be_are_problems() {
    for (line, wanted) in REFUSED {
        let (version, graph) = read(line);
        let inferred = infer(version, graph);
        let [problem] = &inferred.problems[..] else {
            panic!("{line}: {:?}", inferred.problems);
        };
        let text = problem.to_string();
        assert!(text.contains(wanted), "{line}\n  {text}");
    }
}
