//! Attention: a decode step over a long cache in bytes of keys and values read a second, and a causal prefill in
//! multiply-adds a second.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use refeed_kernels::attention::{AttentionProblem, Visibility, attention, default_scale};
use refeed_kernels::pool::RowLayout;
use refeed_kernels::{Compute, Isa, Real, ThreadPool};
use refeed_values::View;
use std::hint::black_box;

/// `[query heads, key/value heads, queries, keys, head size]`
type Extents = [usize; 5];

fn run<T: Real>(c: &mut Criterion, name: &str, cases: &[Extents], make: impl Fn(f32) -> T) {
    let mut group = c.benchmark_group(name);
    group.sample_size(10);
    for &[heads, kv_heads, length, total, size] in cases {
        // each head has room for more rows, as an append block has
        let room = total + total / 2;
        let values = |n: usize| -> Vec<T> {
            (0..n)
                .map(|i| make(((i * 37) % 101) as f32 / 50.0 - 1.0))
                .collect()
        };
        let query = values(heads * length * size);
        let (key, value) = (
            values(kv_heads * room * size),
            values(kv_heads * room * size),
        );
        let cache =
            |data| View::from_slice(data, &[1, kv_heads, room, size])?.slice(2, 0, total, 1);
        let (Some(query), Some(key), Some(value), Some(layout)) = (
            View::from_slice(&query, &[1, heads, length, size]),
            cache(&key),
            cache(&value),
            RowLayout::contiguous([1, heads, length], size),
        ) else {
            continue; // the slices were made for these shapes
        };
        let start = [(total - length) as i64];
        let problem = AttentionProblem {
            query,
            key,
            value,
            scale: default_scale(size),
            softcap: 0.0,
            visibility: Visibility {
                causal: true,
                query_start: &start,
                ..Visibility::default()
            },
        };
        group.throughput(if length == 1 {
            Throughput::Bytes((2 * kv_heads * total * size * size_of::<T>()) as u64)
        } else {
            let seen = length * (2 * total - length + 1) / 2;
            Throughput::Elements((2 * heads * seen * size) as u64)
        });
        let mut out = values(heads * length * size);
        for isa in Isa::available() {
            let compute = Compute {
                isa,
                pool: ThreadPool::global(),
            };
            let label = format!("{heads}/{kv_heads}h {length}q {total}k {size}d");
            group.bench_function(BenchmarkId::new(isa.name(), label), |bencher| {
                bencher.iter(|| attention(&compute, black_box(&problem), &mut out, &layout));
            });
        }
    }
    group.finish();
}

fn decode(c: &mut Criterion) {
    let cases = [
        [8, 8, 1, 2048, 128],
        [9, 3, 1, 512, 64],
        [32, 4, 1, 2048, 64],
    ];
    run(c, "attention/decode f32", &cases, |x| x);
    run(c, "attention/decode f16", &cases[..1], half::f16::from_f32);
}

fn prefill(c: &mut Criterion) {
    run(
        c,
        "attention/prefill f32",
        &[[9, 3, 256, 256, 64], [8, 8, 128, 1024, 128]],
        |x| x,
    );
}

criterion_group!(benches, decode, prefill);
criterion_main!(benches);
