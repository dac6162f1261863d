//! A decode step over a cache in pages: of every format, beside a dense cache, in bytes of keys and values read a second.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use refeed_kernels::attention::paged::{
    GroupError, PageGroup, PagedProblem, QueryPrecision, paged_attention,
};
use refeed_kernels::attention::{AttentionProblem, Visibility, attention, default_scale};
use refeed_kernels::pool::RowLayout;
use refeed_kernels::quantize::{Division, Format, QuantizeError, Rows, encode};
use refeed_kernels::{Compute, Isa, ThreadPool};
use refeed_values::paged_cache::page_of;
use refeed_values::sequence::GROUP;
use refeed_values::{Allocator, DType, RuntimeValue, Tensor, TensorMut, View};
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;

/// `[query heads, key/value heads, tokens, head size]`
type Extents = [usize; 4];

fn numbers(n: usize) -> Vec<f32> {
    (0..n)
        .map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0)
        .collect()
}

fn format(storage: DType) -> Format {
    match storage {
        DType::Int8 => Format::affine(storage, 1.0 / 127.0, 0),
        DType::Int4 => Format::affine(storage, 1.0 / 7.0, 0),
        DType::Int2 => Format::affine(storage, 1.0, 0),
        dense => Format::dense(dense),
    }
}

/// Keys and values of `tokens` tokens in pages of `block`.
fn payloads(
    [_, kv_heads, tokens, size]: Extents,
    block: usize,
    storage: DType,
) -> Result<Vec<[RuntimeValue; 2]>, QuantizeError> {
    let memory = Allocator::default();
    let storage = format(storage).storage()?;
    let rows = numbers(kv_heads * block * size);
    (0..tokens.div_ceil(block))
        .map(|page| {
            let count = block.min(tokens - page * block);
            let rows = Rows::new(&rows, [1, kv_heads, block, size])?.range(0, count)?;
            let one = || {
                encode::<QuantizeError>(&rows, count, &storage, Division::Double, |dtype, shape| {
                    Ok(TensorMut::new(&memory, dtype, shape)?)
                })
            };
            Ok([one()?, one()?])
        })
        .collect()
}

fn stored(payload: &RuntimeValue) -> u64 {
    match payload {
        RuntimeValue::Encoded(codes) => codes.payload().bytes() as u64,
        other => other.bytes() as u64,
    }
}

fn pages(values: &[[RuntimeValue; 2]]) -> Result<Vec<Arc<PageGroup>>, Box<dyn Error>> {
    let mut start = 0;
    let pages = values.iter().map(|[key, value]| {
        let shape = match key {
            RuntimeValue::Encoded(codes) => codes.shape(),
            other => other.tensor().map_or(&[][..], Tensor::shape),
        };
        let length = shape.get(2).copied().unwrap_or(0) as i64;
        start += length;
        let (start, length) = (Tensor::scalar(start - length)?, Tensor::scalar(length)?);
        Ok(page_of(start, length, key.clone(), value.clone())?)
    });
    let pages = pages.collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    let groups = pages.chunks(GROUP);
    let groups = groups.map(|pages| PageGroup::of(pages).map(Arc::new));
    Ok(groups.collect::<Result<_, GroupError>>()?)
}

fn decode(c: &mut Criterion) {
    let pools = [ThreadPool::new(1), ThreadPool::new(2)];
    for extents in [[32, 8, 4096, 128], [14, 2, 4096, 64], [32, 8, 16384, 128]] {
        let [heads, kv_heads, tokens, size] = extents;
        let mut group = c.benchmark_group(format!("paged/{heads}/{kv_heads}h {tokens}k {size}d"));
        group.sample_size(10);
        let query = numbers(heads * size);
        let new = numbers(kv_heads * size);
        let mut out = vec![0f32; heads * size];
        let room = tokens + 1;
        let dense = numbers(kv_heads * room * size);
        let one = |data| View::from_slice(data, &[1, kv_heads, 1, size]);
        let (Some(query), Some(new), Some(dense), Some(layout)) = (
            View::from_slice(&query, &[1, heads, 1, size]),
            one(&new),
            View::from_slice(&dense, &[1, kv_heads, room, size]),
            RowLayout::contiguous([1, heads, 1], size),
        ) else {
            continue; // the slices were made for these shapes
        };
        let start = [tokens as i64];
        let problem = AttentionProblem {
            query: query.clone(),
            key: dense.clone(),
            value: dense,
            scale: default_scale(size),
            softcap: 0.0,
            visibility: Visibility {
                causal: true,
                query_start: &start,
                ..Visibility::default()
            },
        };
        let cases = [
            (DType::Float, 16),
            (DType::Float, 64),
            (DType::Float, 1),
            (DType::Float16, 16),
            (DType::Bfloat16, 16),
            (DType::Int8, 16),
            (DType::Int4, 16),
            (DType::Int2, 16),
            (DType::Int4, 1),
        ];
        for isa in Isa::available() {
            for pool in &pools {
                let compute = Compute::new(isa, pool);
                let name = |what: String| {
                    BenchmarkId::new(format!("{} t{}", isa.name(), pool.threads()), what)
                };
                let bytes = 2 * kv_heads * tokens * size * size_of::<f32>();
                group.throughput(Throughput::Bytes(bytes as u64));
                group.bench_function(name("FLOAT in one piece".to_string()), |bencher| {
                    bencher.iter(|| attention(&compute, black_box(&problem), &mut out, &layout));
                });
                for (storage, block) in cases {
                    let Ok(values) = payloads(extents, block, storage) else {
                        continue; // every format fits
                    };
                    let Ok(pages) = pages(&values) else {
                        continue; // every page was encoded
                    };
                    let problem = PagedProblem {
                        query: query.clone(),
                        key: new.clone(),
                        value: new.clone(),
                        pages: &pages,
                        past: tokens,
                        causal: true,
                        left_window: None,
                        query_precision: QueryPrecision::Full,
                    };
                    let bytes = values.iter().flatten().map(stored).sum();
                    group.throughput(Throughput::Bytes(bytes));
                    group.bench_function(
                        name(format!("{storage} in pages of {block}")),
                        |bencher| {
                            bencher
                                .iter(|| paged_attention(&compute, black_box(&problem), &mut out));
                        },
                    );
                }
            }
        }
        group.finish();
    }
}

criterion_group!(benches, decode);
criterion_main!(benches);
