//! Plain loops in f64, straight from the formulas: what tests and benchmarks compare the kernels with. They share no
//! code with the kernels.

/// Row-major `a[m, k] · b[k, n]`.
pub fn matmul(a: &[f64], b: &[f64], m: usize, k: usize, n: usize) -> Vec<f64> {
    let mut out = vec![0.0; m * n];
    for i in 0..m {
        for j in 0..n {
            out[i * n + j] = (0..k).map(|d| a[i * k + d] * b[d * n + j]).sum();
        }
    }
    out
}

/// Extents of an attention problem.
#[derive(Debug, Clone, Copy)]
pub struct Extents {
    /// Batch rows.
    pub batch: usize,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Query rows of a head.
    pub length: usize,
    /// Keys of a head.
    pub total: usize,
    /// Elements of a query or key.
    pub size: usize,
    /// Elements of a value.
    pub value_size: usize,
}

/// Attention by its formula on dense row-major operands `[batch, heads, rows, size]`. `summand(batch, head, query, key)`
/// is what the mask adds, or `None` for an invisible key, whose key and value do not count whatever they hold.
pub fn attention(
    extents: Extents,
    (query, key, value): (&[f64], &[f64], &[f64]),
    (scale, softcap): (f64, f64),
    summand: impl Fn(usize, usize, usize, usize) -> Option<f64>,
) -> Vec<f64> {
    let Extents {
        batch,
        heads,
        kv_heads,
        length,
        total,
        size,
        value_size,
    } = extents;
    let mut out = vec![0.0; batch * heads * length * value_size];
    for b in 0..batch {
        for h in 0..heads {
            let g = b * kv_heads + h / (heads / kv_heads);
            for i in 0..length {
                let row = (b * heads + h) * length + i;
                let mut seen = Vec::new();
                for j in 0..total {
                    let Some(summand) = summand(b, h, i, j) else {
                        continue;
                    };
                    let dot: f64 = (0..size)
                        .map(|d| query[row * size + d] * key[(g * total + j) * size + d])
                        .sum();
                    let mut score = dot * scale;
                    if softcap != 0.0 {
                        score = softcap * (score / softcap).tanh();
                    }
                    seen.push((j, score + summand));
                }
                let top = seen.iter().fold(f64::NEG_INFINITY, |t, s| t.max(s.1));
                let sum: f64 = seen.iter().map(|s| (s.1 - top).exp()).sum();
                for (j, score) in seen {
                    let weight = (score - top).exp() / sum;
                    for d in 0..value_size {
                        out[row * value_size + d] +=
                            weight * value[(g * total + j) * value_size + d];
                    }
                }
            }
        }
    }
    out
}
