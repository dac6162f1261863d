use super::*;

fn numbers(n: usize) -> Vec<i32> {
    (0..n as i32).map(|i| i * 7 % 101 + 1).collect()
}

/// A view of `shape` whose elements lie in another order than its axes say.
fn turned<'a>(data: &'a [i32], shape: &[usize]) -> View<'a, i32> {
    let back: Vec<usize> = shape.iter().rev().copied().collect();
    let order: Vec<usize> = (0..shape.len()).rev().collect();
    View::from_slice(data, &back)
        .unwrap()
        .permute(&order)
        .unwrap()
}

fn every_index(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut out = vec![vec![]];
    for &dim in shape {
        out = out
            .into_iter()
            .flat_map(|i| (0..dim).map(move |j| [i.clone(), vec![j]].concat()))
            .collect();
    }
    out
}

#[test]
fn parts_are_joined_along_every_axis() {
    for axis in 0..3 {
        for lens in [[2usize, 0, 3], [1, 4, 1]] {
            let mut shape = vec![2, 3, 5];
            shape[axis] = lens.iter().sum();
            let mut out = vec![0; shape.iter().product()];
            let mut want = std::collections::HashMap::new();
            let mut first = 0;
            for (part, &len) in lens.iter().enumerate() {
                let mut own = shape.clone();
                own[axis] = len;
                let data: Vec<i32> = numbers(own.iter().product())
                    .iter()
                    .map(|v| v + 1000 * part as i32)
                    .collect();
                let dense = View::from_slice(&data, &own).unwrap();
                let view = if part == 0 {
                    dense
                } else {
                    turned(&data, &own)
                };
                place(&view, &mut out, &shape, axis, first).unwrap();
                for index in every_index(&own) {
                    let mut at = index.clone();
                    at[axis] += first;
                    want.insert(at, view.get(&index).unwrap());
                }
                first += len;
            }
            let got: Vec<i32> = every_index(&shape).iter().map(|i| want[i]).collect();
            assert_eq!(out, got, "axis {axis} {lens:?}");
        }
    }
}

#[test]
fn a_cache_with_spare_capacity_is_joined_run_by_run() {
    let data = numbers(2 * 3 * 8 * 2);
    let cache = View::from_slice(&data, &[2, 3, 8, 2])
        .unwrap()
        .slice(2, 1, 5, 1)
        .unwrap();
    let mut out = vec![0; 2 * 3 * 6 * 2];
    place(&cache, &mut out, &[2, 3, 6, 2], 2, 1).unwrap();
    let got = View::from_slice(&out, &[2, 3, 6, 2]).unwrap();
    for i in every_index(&[2, 3, 5, 2]) {
        assert_eq!(got.get(&[i[0], i[1], i[2] + 1, i[3]]), cache.get(&i));
    }
    assert!(place(&cache, &mut out, &[2, 3, 6, 2], 2, 2).is_err());
    assert!(place(&cache, &mut out, &[2, 3, 6, 2], 2, usize::MAX).is_err());
    assert!(place(&cache, &mut out, &[2, 4, 6, 2], 2, 0).is_err());
    assert!(place(&cache, &mut out[1..], &[2, 3, 6, 2], 2, 0).is_err());
}

/// Position by position, from the definition of each mode.
fn padded(view: &View<'_, i32>, pads: &[(i64, i64)], fill: PadFill<i32>) -> (Vec<usize>, Vec<i32>) {
    let cut: Vec<(i64, i64)> = pads
        .iter()
        .zip(view.shape())
        .map(|(&(before, after), &dim)| ((-before).max(0), dim as i64 + after.min(0)))
        .collect();
    let shape: Vec<usize> = view
        .shape()
        .iter()
        .zip(pads)
        .map(|(&d, &(b, a))| (d as i64 + b + a) as usize)
        .collect();
    let value = |index: &Vec<usize>| {
        let mut source = Vec::new();
        for (axis, &i) in index.iter().enumerate() {
            let (low, high) = cut[axis];
            let mut at = i as i64 - pads[axis].0;
            match fill {
                PadFill::Constant(value) if at < low || at >= high => return value,
                PadFill::Constant(_) => {}
                PadFill::Edge => at = at.max(low).min(high - 1),
                PadFill::Wrap => {
                    while at < low {
                        at += high - low;
                    }
                    while at >= high {
                        at -= high - low;
                    }
                }
                PadFill::Reflect => {
                    while at < low || at >= high {
                        at = if at < low {
                            2 * low - at
                        } else {
                            2 * (high - 1) - at
                        };
                        if high - low == 1 {
                            at = low;
                        }
                    }
                }
            }
            source.push(at as usize);
        }
        view.get(&source).unwrap()
    };
    let out = every_index(&shape).iter().map(value).collect();
    (shape, out)
}

#[test]
fn padding_agrees_with_its_definition() {
    let data = numbers(24);
    let view = turned(&data, &[2, 3, 4]);
    for fill in [
        PadFill::Constant(-5),
        PadFill::Reflect,
        PadFill::Edge,
        PadFill::Wrap,
    ] {
        for pads in [
            [(0, 0), (0, 0), (0, 0)],
            [(1, 2), (0, 1), (3, 0)],
            [(0, 0), (-1, 4), (2, -2)],
            [(-1, 0), (7, 9), (-1, -1)],
            [(5, 0), (-2, 6), (0, 11)],
        ] {
            let (shape, want) = padded(&view, &pads, fill);
            let mut out = vec![0; want.len()];
            pad(&view, &pads, fill, &mut out, &shape).unwrap();
            assert_eq!(out, want, "{fill:?} {pads:?}");
        }
    }
}

#[test]
fn padding_of_nothing_takes_only_constants() {
    let none = View::<i32>::from_slice(&[], &[0, 2]).unwrap();
    let mut out = [0; 6];
    pad(
        &none,
        &[(1, 2), (0, 0)],
        PadFill::Constant(4),
        &mut out,
        &[3, 2],
    )
    .unwrap();
    assert_eq!(out, [4; 6]);
    assert!(pad(&none, &[(1, 2), (0, 0)], PadFill::Edge, &mut out, &[3, 2]).is_err());
    // Cut away whole, then filled.
    let data = [1, 2, 3];
    let line = View::from_slice(&data, &[3]).unwrap();
    let mut out = [0; 2];
    pad(&line, &[(-5, 4)], PadFill::Constant(9), &mut out, &[2]).unwrap();
    assert_eq!(out, [9; 2]);
    let mut out = [0; 2];
    pad(
        &line,
        &[(i64::MIN, i64::MAX)],
        PadFill::Constant(9),
        &mut out,
        &[2],
    )
    .unwrap();
    assert_eq!(out, [9; 2]);
    assert!(
        pad(
            &line,
            &[(i64::MAX, i64::MAX)],
            PadFill::Constant(9),
            &mut out,
            &[2]
        )
        .is_err()
    );
    assert!(pad(&line, &[(0, 0)], PadFill::Edge, &mut out, &[2]).is_err());
}

#[test]
fn triangles_of_every_diagonal() {
    let data = numbers(2 * 3 * 5);
    let view = turned(&data, &[2, 3, 5]);
    for k in [i64::MIN, -4, -1, 0, 1, 3, 6, i64::MAX] {
        for upper in [false, true] {
            let mut out = vec![0; 30];
            trilu(&view, k, upper, &mut out).unwrap();
            for (i, &got) in every_index(&[2, 3, 5]).iter().zip(&out) {
                let distance = i[2] as i128 - i[1] as i128;
                let kept = if upper {
                    distance >= k as i128
                } else {
                    distance <= k as i128
                };
                assert_eq!(
                    got,
                    if kept { view.get(i).unwrap() } else { 0 },
                    "{k} {upper} {i:?}"
                );
            }
        }
    }
    assert!(trilu(&View::from_slice(&[1], &[1]).unwrap(), 0, true, &mut [0]).is_err());
}

#[test]
fn scatter_nd_writes_blocks_in_order() {
    let mut out = numbers(12);
    let before = out.clone();
    scatter_nd(
        &mut out,
        &[4, 3],
        &[1i32, -1, 1],
        (3, 1),
        &[1, 2, 3, 4, 5, 6, 7, 8, 9],
        Reduction::None,
    )
    .unwrap();
    let want = [&before[..3], &[7, 8, 9], &before[6..9], &[4, 5, 6]].concat();
    assert_eq!(out, want);
    let mut out = vec![1f32, 2., f32::NAN, 4.];
    let tuples = [0i64, 0, 1, 1, 0, 0];
    scatter_nd(
        &mut out,
        &[2, 2],
        &tuples,
        (3, 2),
        &[10., 0.5, 3.],
        Reduction::Max,
    )
    .unwrap();
    assert_eq!(
        (out[0], out[1], out[2].is_nan(), out[3]),
        (10., 2., true, 4.)
    );
    let mut out = [i8::MAX, 2];
    scatter_nd(
        &mut out,
        &[2],
        &[0i64, 0, 1],
        (3, 1),
        &[1, 1, 3],
        Reduction::Add,
    )
    .unwrap();
    assert_eq!(out, [i8::MIN + 1, 5]);
    // No index at all names the whole tensor.
    scatter_nd(
        &mut out,
        &[2],
        &[] as &[i64],
        (2, 0),
        &[1, 2, 3, 4],
        Reduction::Mul,
    )
    .unwrap();
    assert_eq!(out, [(i8::MIN + 1).wrapping_mul(3), 40]);
    for bad in [2i64, -3, i64::MIN, i64::MAX] {
        assert!(
            scatter_nd(&mut out, &[2], &[bad], (1, 1), &[1], Reduction::None).is_err(),
            "{bad}"
        );
    }
}

#[test]
fn scatter_elements_agrees_with_plain_loops() {
    let (shape, extents) = ([3usize, 4, 2], [2usize, 3, 2]);
    for axis in 0..3 {
        let limit = shape[axis] as i64;
        let indices: Vec<i64> = (0..12i64)
            .map(|i| (i * 5 + 1) % limit - if i % 2 == 0 { limit } else { 0 })
            .collect();
        let updates = numbers(12);
        for reduction in [
            Reduction::None,
            Reduction::Add,
            Reduction::Mul,
            Reduction::Max,
            Reduction::Min,
        ] {
            let mut out = numbers(24);
            let mut want = out.clone();
            for (n, place) in every_index(&extents).iter().enumerate() {
                let mut at = place.clone();
                at[axis] = ((indices[n] + limit) % limit) as usize;
                let slot = &mut want[(at[0] * 4 + at[1]) * 2 + at[2]];
                *slot = match reduction {
                    Reduction::None => updates[n],
                    Reduction::Add => *slot + updates[n],
                    Reduction::Mul => *slot * updates[n],
                    Reduction::Max => std::cmp::max(*slot, updates[n]),
                    Reduction::Min => std::cmp::min(*slot, updates[n]),
                };
            }
            scatter_elements(
                &mut out, &shape, axis, &indices, &updates, &extents, reduction,
            )
            .unwrap();
            assert_eq!(out, want, "axis {axis} {reduction:?}");
        }
    }
    let mut out = numbers(6);
    assert!(
        scatter_elements(
            &mut out,
            &[2, 3],
            1,
            &[0i64; 9],
            &[0; 9],
            &[3, 3],
            Reduction::None
        )
        .is_err()
    );
}

#[test]
fn tensor_scatter_in_line_and_on_a_ring() {
    let (shape, len) = ([2usize, 2, 5, 3], 3usize);
    let data = numbers(2 * 2 * len * 3);
    let update = turned(&data, &[2, 2, len, 3]);
    for (circular, starts) in [(false, [2i64, 0]), (true, [4, 13]), (true, [-1, i64::MIN])] {
        let mut out = vec![-9; 60];
        tensor_scatter(&mut out, &shape, 2, &update, Some(&starts), circular).unwrap();
        let mut want = vec![-9; 60];
        for i in every_index(update.shape()) {
            let row = (starts[i[0]] as i128 + i[2] as i128).rem_euclid(5) as usize;
            want[((i[0] * 2 + i[1]) * 5 + row) * 3 + i[3]] = update.get(&i).unwrap();
        }
        assert_eq!(out, want, "{circular} {starts:?}");
    }
    let mut out = vec![-9; 60];
    for bad in [[3, 0], [-1, 0], [0, i64::MAX]] {
        assert!(
            tensor_scatter(&mut out, &shape, 2, &update, Some(&bad), false).is_err(),
            "{bad:?}"
        );
    }
    assert!(tensor_scatter(&mut out, &shape, 2, &update, Some(&[0]), true).is_err());
}
