//! Numbers that stand in for masked scores and are low, but not so low that they absorb a score.

use super::*;

/// Extents that differ pairwise: 4 heads on 2, 3 new positions, 11 in all, of 8 and 6.
const UNEQUAL: Sizes = Sizes {
    batch: 2,
    mask_batch: 2,
    past: 8,
    new: 3,
};

/// Replaces the mask by a `Where` with this number; `keep` is where the mask is not above 0.
fn filled_with(place: &str, number: &str) -> String {
    format!(
        "low_fill = Constant <value_float = {number}> () keep = LessOrEqual (mask, zero) masked = Where {place}"
    )
}

const PLACES: [&str; 2] = ["(keep, scores, low_fill)", "(above, low_fill, scores)"];

fn places(number: &str) -> [String; 2] {
    PLACES.map(|place| {
        let text = filled_with(place, number);
        text.replace("masked =", "above = Not (keep) masked =")
    })
}

/// A mask with these rows of 11 above 0, so that the `Where` takes their keys out.
fn rows_out(rows: &[usize]) -> Tensor {
    let mut values: Vec<f32> = (0..2 * 3 * 11)
        .map(|i| if i % 3 == 1 { 1.0 } else { -1.0 })
        .collect();
    for row in rows {
        values[row * 11..][..11].fill(1.0);
    }
    Tensor::from_slice(&[2, 1, 3, 11], &values).unwrap()
}

#[test]
fn low_numbers_leave_their_keys_out() {
    let all = with(feeds(UNEQUAL), "mask", rows_out(&[]));
    for number in ["-1e9", "-1e4", "-65504.0", "-1e30"] {
        for put in places(number) {
            runs(&[("masked = Add (scores, mask)", &put)], &all);
            let then = put.replace("masked =", "put =") + " masked = Add (put, mask)";
            runs(&[("masked = Add (scores, mask)", &then)], &all);
            let before = put.replace("scores", "sums");
            let before = format!("sums = Add (scores, mask) {before}");
            runs(&[("masked = Add (scores, mask)", &before)], &all);
        }
    }
}

#[test]
fn what_is_left_out_has_no_weight_in_float64_either() {
    // The graph in DOUBLE, run node by node, is the oracle.
    let put = places("-1e4")[0].clone();
    let text = changed(&[("masked = Add (scores, mask)", &put)]);
    let wide = text
        .replace("float[", "double[")
        .replace("float scale", "double scale")
        .replace("float zero", "double zero")
        .replace(
            "keep = LessOrEqual",
            "low_wide = Cast <to = 11> (low_fill) keep = LessOrEqual",
        )
        .replace("scores, low_fill", "scores, low_wide");
    let all = with(feeds(UNEQUAL), "mask", rows_out(&[]));
    let context = RuntimeContext::default();
    let given = all.iter().map(|(name, value)| (*name, value.clone()));
    let ours = session(&text, true);
    let got = ours.run(&context, given).unwrap();
    assert_eq!(ours.attention()[0].declined(), None);
    let given = all.iter().map(|(name, value)| {
        let wide = Tensor::from_slice(value.shape(), &numbers(value)).unwrap();
        (*name, wide)
    });
    let want = session(&wide, false).run(&context, given).unwrap();
    let want = numbers(want.tensor("y").unwrap());
    for (got, want) in numbers(got.tensor("y").unwrap()).into_iter().zip(want) {
        assert!((got - want).abs() <= 1e-5, "{got} {want}");
    }
}

#[test]
fn a_query_that_sees_no_key_weighs_all_alike() {
    let all = with(feeds(UNEQUAL), "mask", rows_out(&[4]));
    for put in places("-1e9") {
        let masked = ("masked = Add (scores, mask)", put.as_str());
        declines(&[masked], &all, "a query sees no key");
        // No weight is NaN, so nothing becomes 0.
        let guard = (
            "y = MatMul (weights, v4)",
            "absent = IsNaN (weights) kept = Where (absent, zero, weights) y = MatMul (kept, v4)",
        );
        declines(&[masked, guard], &all, "a query sees no key");
        // Minus infinity on top of what is seen.
        let mut hidden = vec![0f32; 2 * 3 * 11];
        hidden[..11].fill(f32::NEG_INFINITY);
        let then = format!("{put} wide_open = Add (masked, hidden)");
        let then = then
            .replace("masked =", "put =")
            .replace("wide_open = Add (masked", "masked = Add (put");
        let text = changed(&[("masked = Add (scores, mask)", &then)]);
        let text = text.replace(
            "float[M,1,S,T] mask",
            "float[M,1,S,T] mask, float[M,1,S,T] hidden",
        );
        let mut all = with(feeds(UNEQUAL), "mask", rows_out(&[]));
        all.push((
            "hidden",
            Tensor::from_slice(&[2, 1, 3, 11], &hidden).unwrap(),
        ));
        let forms = both(&text, &all, true);
        assert_eq!(forms[0].declined(), Some((1, "a query sees no key")));
    }
}

#[test]
fn scores_as_low_as_what_stands_in_are_left_to_the_nodes() {
    // Keys a thousand times as large: a score may lie below -1e4, and a masked key wins.
    let mut all = with(feeds(UNEQUAL), "mask", rows_out(&[]));
    for (name, tensor) in &mut all {
        if ["k", "past_k"].contains(name) {
            let large: Vec<f32> = numbers(tensor).iter().map(|x| *x as f32 * 3000.0).collect();
            *tensor = Tensor::from_slice(tensor.shape(), &large).unwrap();
        }
    }
    let put = &places("-1e4")[0];
    declines(
        &[("masked = Add (scores, mask)", put)],
        &all,
        "not low enough",
    );
    let put = &places("-1e9")[0];
    runs(&[("masked = Add (scores, mask)", put)], &all);
}

#[test]
fn a_number_of_the_call_is_judged_in_the_call() {
    let put = "keep = LessOrEqual (mask, zero) masked = Where (keep, scores, given)";
    let text = changed(&[
        ("masked = Add (scores, mask)", put),
        ("float[M,1,S,T] mask", "float[M,1,S,T] mask, float[1] given"),
    ]);
    for (number, why) in [
        (-1e9f32, None),
        (f32::MIN, None),
        (f32::NEG_INFINITY, None),
        (-5.0, Some("not low enough")),
        (-700.0, Some("not low enough")),
        (f32::NAN, Some("not low enough")),
        (f32::INFINITY, Some("not low enough")),
    ] {
        let mut all = with(feeds(UNEQUAL), "mask", rows_out(&[]));
        all.push(("given", Tensor::from_slice(&[1], &[number]).unwrap()));
        let forms = both(&text, &all, why.is_some());
        assert_eq!(forms[0].obstacle.as_deref(), None);
        match (forms[0].declined(), why) {
            (None, None) => {}
            (Some((1, said)), Some(why)) => assert!(said.contains(why), "{said}"),
            other => panic!("{number}: {other:?}"),
        }
    }
}

#[test]
fn numbers_that_are_not_low_stay() {
    for number in ["-500.0", "0.0", "nan", "inf"] {
        let put = &places(number)[0];
        stays(&[("masked = Add (scores, mask)", put)], "not low enough");
    }
}

#[test]
fn low_summands_are_summands() {
    // A query of which all keys have the same low summand sees them all; the sum keeps what digits it has.
    for number in [-1e4f32, -1e9, f32::MIN] {
        let mut values = vec![0f32; 2 * 3 * 11];
        values[11..22].fill(number);
        values[40..44].fill(number);
        let mask = Tensor::from_slice(&[2, 1, 3, 11], &values).unwrap();
        let text = changed(&[]);
        let forms = compared(&text, &with(feeds(UNEQUAL), "mask", mask), 2e-3);
        assert_eq!(
            (forms[0].obstacle.as_deref(), forms[0].declined()),
            (None, None)
        );
    }
}

#[test]
fn masks_of_fewer_rows_serve_all_queries_that_they_stand_for() {
    let all = feeds(UNEQUAL);
    for shape in [
        &[11usize][..],
        &[3, 11],
        &[1, 1, 11],
        &[1, 4, 1, 11],
        &[2, 1, 1, 11],
        &[1, 1, 3, 1],
    ] {
        let count: usize = shape.iter().product();
        let last = *shape.last().unwrap();
        let values: Vec<f32> = (0..count)
            .map(|i| if last > 1 && i % 4 == 1 { 1.0 } else { -1.0 })
            .collect();
        let mask = Tensor::from_slice(shape, &values).unwrap();
        let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
        let declared = format!("float[{}] mask", dims.join(","));
        for number in ["-1e9", "-3.4028235e38"] {
            runs(
                &[
                    ("float[M,1,S,T] mask", declared.as_str()),
                    ("masked = Add (scores, mask)", &places(number)[0]),
                ],
                &with(all.clone(), "mask", mask.clone()),
            );
        }
    }
}
