use super::*;
use crate::{Isa, ThreadPool};

fn values(count: usize, seed: usize) -> Vec<f32> {
    let spread = |i: usize| (i * 7919 + seed * 104_729 + 13) % 65_521;
    (0..count)
        .map(|i| spread(i) as f32 / 32_760.0 - 1.0)
        .collect()
}

/// Operands of one call.
struct Case {
    rule: UpdateRule,
    batch: usize,
    length: usize,
    heads: [usize; 3],
    key: usize,
    value: usize,
    operands: [Vec<f32>; 3],
    past: Option<Vec<f32>>,
    /// By row of the state, or by head.
    decay: (usize, Vec<f32>),
    beta: (usize, Vec<f32>),
}

fn case(rule: UpdateRule, heads: [usize; 3], by_row: bool, one_rate: bool) -> Case {
    let (batch, length, key, value) = (2, 37, 5, 19);
    let [q, k, s] = heads;
    let decays = if by_row { s * key } else { s };
    let rates = if one_rate { 1 } else { s };
    Case {
        rule,
        batch,
        length,
        heads,
        key,
        value,
        operands: [
            values(batch * length * q * key, 1),
            values(batch * length * k * key, 2),
            values(batch * length * s * value, 3),
        ],
        past: Some(values(batch * s * key * value, 4)),
        decay: (decays, values(batch * length * decays, 5)),
        beta: (rates, values(batch * length * rates, 6)),
    }
}

impl Case {
    fn problem(&self) -> LinearAttentionProblem<'_, f32, f32> {
        let (b, t, [q, k, s]) = (self.batch, self.length, self.heads);
        let three = |data, columns| View::from_slice(data, &[b, t, columns]).unwrap();
        LinearAttentionProblem {
            rule: self.rule,
            heads: self.heads,
            scale: 0.7,
            query: three(&self.operands[0], q * self.key),
            key: three(&self.operands[1], k * self.key),
            value: three(&self.operands[2], s * self.value),
            past: self
                .past
                .as_ref()
                .map(|past| View::from_slice(past, &[b, s, self.key, self.value]).unwrap()),
            decay: Some(three(&self.decay.1, self.decay.0)),
            beta: Some(three(&self.beta.1, self.beta.0)),
        }
    }

    /// The formula in f64.
    fn reference(&self) -> (Vec<f64>, Vec<f64>) {
        let [q, k, s] = self.heads;
        let outs = q.max(s);
        let mut out = vec![0.0; self.batch * self.length * outs * self.value];
        let mut states = vec![0.0; self.batch * s * self.key * self.value];
        let at = |data: &[f32], b, t, columns, column| {
            f64::from(data[(b * self.length + t) * columns + column])
        };
        for b in 0..self.batch {
            for h in 0..s {
                let mut state = vec![vec![0.0; self.value]; self.key];
                for (i, row) in state.iter_mut().enumerate() {
                    for (j, x) in row.iter_mut().enumerate() {
                        let index = ((b * s + h) * self.key + i) * self.value + j;
                        *x = self
                            .past
                            .as_ref()
                            .map_or(0.0, |past| f64::from(past[index]));
                    }
                }
                for t in 0..self.length {
                    let key = |i| {
                        at(
                            &self.operands[1],
                            b,
                            t,
                            k * self.key,
                            h * k / s * self.key + i,
                        )
                    };
                    if matches!(self.rule, UpdateRule::Gated | UpdateRule::GatedDelta) {
                        for (i, row) in state.iter_mut().enumerate() {
                            let column = if self.decay.0 == s {
                                h
                            } else {
                                h * self.key + i
                            };
                            let factor = at(&self.decay.1, b, t, self.decay.0, column).exp();
                            row.iter_mut().for_each(|x| *x *= factor);
                        }
                    }
                    let mut add = vec![0.0; self.value];
                    for (j, slot) in add.iter_mut().enumerate() {
                        let value = at(&self.operands[2], b, t, s * self.value, h * self.value + j);
                        *slot = value;
                        if matches!(self.rule, UpdateRule::Delta | UpdateRule::GatedDelta) {
                            let held: f64 = (0..self.key).map(|i| key(i) * state[i][j]).sum();
                            let column = if self.beta.0 == 1 { 0 } else { h };
                            *slot = at(&self.beta.1, b, t, self.beta.0, column) * (value - held);
                        }
                    }
                    for (i, row) in state.iter_mut().enumerate() {
                        for (x, add) in row.iter_mut().zip(&add) {
                            *x += key(i) * add;
                        }
                    }
                    for o in 0..outs {
                        if o * s / outs != h {
                            continue;
                        }
                        for j in 0..self.value {
                            let query = |i| {
                                at(
                                    &self.operands[0],
                                    b,
                                    t,
                                    q * self.key,
                                    o * q / outs * self.key + i,
                                )
                            };
                            let sum: f64 = (0..self.key).map(|i| query(i) * state[i][j]).sum();
                            out[((b * self.length + t) * outs + o) * self.value + j] =
                                0.7f32 as f64 * sum;
                        }
                    }
                }
                for (i, row) in state.iter().enumerate() {
                    let index = ((b * s + h) * self.key + i) * self.value;
                    states[index..][..self.value].copy_from_slice(row);
                }
            }
        }
        (out, states)
    }
}

const RULES: [UpdateRule; 4] = [
    UpdateRule::Linear,
    UpdateRule::Gated,
    UpdateRule::Delta,
    UpdateRule::GatedDelta,
];

fn close(got: &[f32], want: &[f64], what: &str) {
    let largest = want.iter().fold(1.0f64, |m, x| m.max(x.abs()));
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let off = (f64::from(*got) - want).abs();
        assert!(off <= 2e-5 * largest, "{what} at {i}: {got}, want {want}");
    }
}

#[test]
fn every_rule_and_sharing_of_heads() {
    let pool = ThreadPool::new(2);
    for isa in Isa::available() {
        let compute = Compute::new(isa, &pool);
        for rule in RULES {
            for heads in [[3, 3, 3], [6, 2, 2], [2, 2, 6], [1, 3, 3], [4, 1, 2]] {
                for (by_row, one_rate) in [(false, false), (true, true)] {
                    for with_past in [false, true] {
                        let mut case = case(rule, heads, by_row, one_rate);
                        case.past = case.past.filter(|_| with_past);
                        let (want, state) = case.reference();
                        let mut out = vec![9e9f32; want.len()];
                        let mut present = vec![9e9f32; state.len()];
                        linear_attention(&compute, &case.problem(), &mut out, &mut present)
                            .unwrap();
                        let what = format!("{isa} {rule:?} {heads:?} {by_row} {one_rate}");
                        close(&out, &want, &what);
                        close(&present, &state, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn token_by_token_and_any_number_of_threads_give_the_same_bits() {
    let case = case(UpdateRule::GatedDelta, [2, 2, 6], false, false);
    let problem = case.problem();
    let (want, state) = case.reference();
    let run = |threads, problem: &LinearAttentionProblem<'_, f32, f32>, length: usize| {
        let pool = ThreadPool::new(threads);
        let compute = Compute::new(Isa::best(), &pool);
        let mut out = vec![0f32; want.len() / case.length * length];
        let mut present = vec![0f32; state.len()];
        linear_attention(&compute, problem, &mut out, &mut present).unwrap();
        (out, present)
    };
    let whole = run(1, &problem, case.length);
    assert_eq!(whole, run(5, &problem, case.length));
    let mut past = case.past.clone().unwrap();
    let shape = [case.batch, 6, case.key, case.value];
    let columns = want.len() / case.batch / case.length;
    for token in 0..case.length {
        let part = |view: &View<'_, f32>| view.slice(1, token, 1, 1).unwrap().to_vec();
        let (q, k, v) = (
            part(&problem.query),
            part(&problem.key),
            part(&problem.value),
        );
        let (g, b) = (
            part(problem.decay.as_ref().unwrap()),
            part(problem.beta.as_ref().unwrap()),
        );
        let three = |data| {
            View::from_slice(data, &[case.batch, 1, <[f32]>::len(data) / case.batch]).unwrap()
        };
        let step = LinearAttentionProblem {
            query: three(&q),
            key: three(&k),
            value: three(&v),
            past: Some(View::from_slice(&past, &shape).unwrap()),
            decay: Some(three(&g)),
            beta: Some(three(&b)),
            ..problem.clone()
        };
        let (out, present) = run(2, &step, 1);
        for row in 0..case.batch {
            let at = (row * case.length + token) * columns;
            assert_eq!(out[row * columns..][..columns], whole.0[at..][..columns]);
        }
        past = present;
    }
    assert_eq!(past, whole.1);
}

#[test]
fn operands_that_do_not_fit_are_errors() {
    let case = case(UpdateRule::GatedDelta, [2, 2, 4], false, false);
    let good = case.problem();
    assert!(good.shapes().is_ok());
    let with = |change: fn(&mut LinearAttentionProblem<'_, f32, f32>)| {
        let mut problem = good.clone();
        change(&mut problem);
        problem.shapes()
    };
    assert!(with(|p| p.decay = None).is_err());
    assert!(with(|p| p.beta = None).is_err());
    assert!(with(|p| p.heads = [3, 2, 4]).is_err());
    assert!(with(|p| p.heads = [0, 2, 4]).is_err());
    assert!(with(|p| p.heads = [2, 4, 4]).is_err());
    assert!(with(|p| p.past = p.past.as_ref().and_then(|past| past.slice(2, 0, 3, 1))).is_err());
    assert!(with(|p| p.value = p.query.clone()).is_err());
    // What a rule does not read may be there.
    assert!(with(|p| p.rule = UpdateRule::Linear).is_ok());
}
