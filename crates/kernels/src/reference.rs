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
