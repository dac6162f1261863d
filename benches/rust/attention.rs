//! Attention: a decode step over a long cache in bytes of keys and values read a second, beside what the memory gives in
//! the same run, and a causal prefill in multiply-adds a second; each on every instruction set of the machine.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use refeed_kernels::attention::{AttentionProblem, Visibility, attention, default_scale};
use refeed_kernels::pool::RowLayout;
use refeed_kernels::{Compute, Isa, Real, ThreadPool, vecmath};
use refeed_values::{Allocator, Tensor, TensorMut, View};
use std::hint::black_box;

/// `[query heads, key/value heads, queries, keys, head size]`
type Extents = [usize; 5];

fn run<T: Real>(c: &mut Criterion, name: &str, cases: &[Extents], make: impl Fn(f32) -> T) {
    for threads in threads() {
        let pool = ThreadPool::new(threads);
        let mut group = c.benchmark_group(format!("{name}, {threads} threads"));
        group.sample_size(10);
        for &[heads, kv_heads, length, total, size] in cases {
            // each head has room for more rows, as an append block has
            let room = total + total / 2;
            let query = tensor(&[1, heads, length, size], &make);
            let key = tensor(&[1, kv_heads, room, size], &make);
            let value = tensor(&[1, kv_heads, room, size], &make);
            let (Some(key), Some(value), Some(layout)) = (
                view::<T>(&key).slice(2, 0, total, 1),
                view::<T>(&value).slice(2, 0, total, 1),
                RowLayout::contiguous([1, heads, length], size),
            ) else {
                continue; // the tensors were made for these shapes
            };
            let query = view::<T>(&query);
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
            let mut out = vec![T::default(); heads * length * size];
            for isa in Isa::available() {
                let compute = Compute::new(isa, &pool);
                let label = format!("{heads}/{kv_heads}h {length}q {total}k {size}d");
                group.bench_function(BenchmarkId::new(isa.name(), label), |bencher| {
                    bencher.iter(|| attention(&compute, black_box(&problem), &mut out, &layout));
                });
            }
        }
        group.finish();
    }
}

/// Numbers in memory as a cache has it.
fn tensor<T: Real>(shape: &[usize], make: impl Fn(f32) -> T) -> Tensor {
    let made = TensorMut::new(&Allocator::default(), T::DTYPE, shape);
    let mut made = made.expect("memory for a benchmark");
    let slots = made.as_mut_slice::<T>().expect("made of this type");
    for (i, slot) in slots.iter_mut().enumerate() {
        *slot = make(((i * 37) % 101) as f32 / 50.0 - 1.0);
    }
    made.freeze()
}

fn view<T: Real>(tensor: &Tensor) -> View<'_, T> {
    tensor.view().expect("made of this type")
}

/// One thread, and all of them where there are more.
fn threads() -> Vec<usize> {
    let all = ThreadPool::global().threads();
    if all > 1 { vec![1, all] } else { vec![1] }
}

/// What the memory gives: sums over blocks of one GiB.
fn bandwidth(c: &mut Criterion) {
    const PART: usize = 1 << 20;
    let data = tensor::<f32>(&[1 << 28], |x| x);
    let data = view::<f32>(&data);
    let data = data.as_slice().expect("made in one piece");
    let isa = Isa::best();
    let mut group = c.benchmark_group("memory/read");
    group.sample_size(10);
    group.throughput(Throughput::Bytes(size_of_val(data) as u64));
    for threads in threads() {
        let pool = ThreadPool::new(threads);
        group.bench_function(format!("1 GiB, {threads} threads"), |bencher| {
            bencher.iter(|| {
                pool.run(data.len() / PART, |i| {
                    black_box(vecmath::sum(isa, &data[i * PART..][..PART]));
                });
            });
        });
    }
    group.finish();
}

fn decode(c: &mut Criterion) {
    let cases: Vec<Extents> = [
        (1, 1, 64),
        (8, 1, 64),
        (14, 2, 64),
        (32, 8, 128),
        (32, 32, 128),
    ]
    .into_iter()
    .flat_map(|(heads, kv_heads, size)| [128, 4096].map(|total| [heads, kv_heads, 1, total, size]))
    .collect();
    run(c, "attention/decode f32", &cases, |x| x);
    let wide = [[32, 8, 1, 4096, 128]];
    run(c, "attention/decode f16", &wide, half::f16::from_f32);
    run(c, "attention/decode bf16", &wide, half::bf16::from_f32);
}

fn prefill(c: &mut Criterion) {
    let cases = [[32, 8, 512, 512, 128], [32, 8, 2048, 2048, 128]];
    run(c, "attention/prefill f32", &cases, |x| x);
}

criterion_group!(benches, bandwidth, decode, prefill);
criterion_main!(benches);
