//! Attention that has run before asks the system for no memory, however the cache grew in between.

#![allow(clippy::unwrap_used)]

#[path = "../../../tests/rust/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::{Counting, requests_of_all};
use refeed_kernels::attention::{AttentionProblem, Visibility, attention, default_scale};
use refeed_kernels::pool::RowLayout;
use refeed_kernels::{Compute, Isa, ThreadPool};
use refeed_values::View;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Attention of `length` queries of four heads over the first `total` keys of one head with room for 2048.
fn run(compute: &Compute<'_>, cache: &[f32], length: usize, total: usize, out: &mut [f32]) {
    let query = &cache[..4 * length * 24];
    let rows = View::from_slice(cache, &[1, 1, 2048, 24]).unwrap();
    let rows = rows.slice(2, 0, total, 1).unwrap();
    let problem = AttentionProblem {
        query: View::from_slice(query, &[1, 4, length, 24]).unwrap(),
        key: rows.clone(),
        value: rows,
        scale: default_scale(24),
        softcap: 0.0,
        visibility: Visibility {
            causal: true,
            query_start: &[(total - length) as i64],
            ..Visibility::default()
        },
    };
    let layout = RowLayout::contiguous([1, 4, length], 24).unwrap();
    attention(compute, &problem, &mut out[..4 * length * 24], &layout).unwrap();
}

#[test]
fn warm_attention_allocates_nothing() {
    let pool = ThreadPool::new(2);
    let cache: Vec<f32> = (0..2048 * 24)
        .map(|i| ((i * 37) % 101) as f32 / 50.0)
        .collect();
    let mut out = vec![0f32; 4 * 100 * 24];
    for isa in Isa::available() {
        let compute = Compute::new(isa, &pool);
        let one = ThreadPool::new(1);
        let alone = Compute::new(isa, &one);
        run(&alone, &cache, 100, 2048, &mut out);
        for total in 300..2048 {
            run(&alone, &cache, 1, total, &mut out);
        }
        let before = requests_of_all();
        for total in 300..2048 {
            run(&alone, &cache, 1, total, &mut out);
        }
        run(&alone, &cache, 100, 1500, &mut out);
        assert_eq!(requests_of_all() - before, 0, "{isa}");
        // a worker's own memory warms up once; after that steps on two threads are as quiet
        for _ in 0..200 {
            run(&compute, &cache, 1, 2048, &mut out);
        }
        let before = requests_of_all();
        for total in 1848..2048 {
            run(&compute, &cache, 1, total, &mut out);
        }
        let requests = requests_of_all() - before;
        assert!(requests <= 8, "{isa}: {requests} requests in 200 steps");
    }
}
