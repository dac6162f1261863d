//! Matrix products: decode shapes in bytes read a second, prefill shapes in multiply-adds a second.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use refeed_kernels::matmul::nbits::{Layout, Numbers, Weights, Zeros, multiply};
use refeed_kernels::{Compute, Isa, ThreadPool, matmul::matmul};
use refeed_values::View;
use std::hint::black_box;

fn values(n: usize) -> Vec<f32> {
    (0..n)
        .map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0)
        .collect()
}

/// `[m, k] · [k, n]`, the right operand dense along `n` or along `k`.
fn product(c: &mut Criterion, group: &str, sizes: &[[usize; 3]], by_bytes: bool) {
    let mut group = c.benchmark_group(group);
    group.sample_size(10);
    for &[m, k, n] in sizes {
        let (a, b) = (values(m * k), values(k * n));
        let mut out = vec![0f32; m * n];
        group.throughput(if by_bytes {
            Throughput::Bytes(4 * (k * n) as u64)
        } else {
            Throughput::Elements((m * k * n) as u64)
        });
        for isa in Isa::available() {
            let compute = Compute::new(isa, ThreadPool::global());
            for turned in [false, true] {
                let shape = if turned { [n, k] } else { [k, n] };
                let (Some(left), Some(right)) =
                    (View::from_slice(&a, &[m, k]), View::from_slice(&b, &shape))
                else {
                    continue; // the slices were made for these shapes
                };
                let right = if turned {
                    right.swap(0, 1)
                } else {
                    Some(right)
                };
                let Some(right) = right else { continue };
                let form = if turned { "n-by-k" } else { "k-by-n" };
                let name = BenchmarkId::new(format!("{isa}/{form}"), format!("{m}x{k}x{n}"));
                group.bench_function(name, |bencher| {
                    bencher
                        .iter(|| matmul(&compute, black_box(&left), black_box(&right), &mut out));
                });
            }
        }
    }
    group.finish();
}

fn decode(c: &mut Criterion) {
    product(
        c,
        "matmul/decode",
        &[[1, 576, 1536], [1, 2048, 8192], [4, 1024, 4096]],
        true,
    );
}

fn prefill(c: &mut Criterion) {
    product(
        c,
        "matmul/prefill",
        &[[64, 576, 1536], [512, 512, 512]],
        false,
    );
}

/// Weights of 4 and 8 bits in blocks of 32, in bytes read a second; the same extents as [`decode`]'s.
fn nbits(c: &mut Criterion) {
    let mut group = c.benchmark_group("matmul/nbits");
    group.sample_size(10);
    for bits in [4, 8] {
        for [m, k, n] in [
            [1, 2048, 8192],
            [1, 4096, 4096],
            [4, 1024, 4096],
            [64, 1024, 4096],
        ] {
            let Ok(layout) = Layout::new(bits, k, n, 32) else {
                continue; // the extents are good
            };
            let codes: Vec<u8> = (0..n * layout.row_bytes())
                .map(|i| ((i * 37) % 251) as u8)
                .collect();
            let (a, scales) = (values(m * k), values(n * layout.blocks));
            let mut out = vec![0f32; m * n];
            let scales = Numbers::Float(&scales);
            let weights = Weights::new(layout, &codes, scales, Zeros::Middle);
            let (Ok(weights), Some(rows)) = (weights, View::from_slice(&a, &[m, k])) else {
                continue; // as above
            };
            group.throughput(Throughput::Bytes(codes.len() as u64));
            for isa in Isa::available() {
                let pool = ThreadPool::global();
                let compute = Compute::new(isa, pool);
                let name = BenchmarkId::new(format!("{isa}/{bits}"), format!("{m}x{k}x{n}"));
                group.bench_function(name, |bencher| {
                    bencher.iter(|| multiply(&compute, black_box(&rows), &weights, None, &mut out));
                });
            }
        }
    }
    group.finish();
}

criterion_group!(benches, decode, nbits, prefill);
criterion_main!(benches);
