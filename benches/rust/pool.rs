//! What sharing a job costs, from which the bounds in `refeed_kernels::Compute::parallel` follow: until all threads were
//! in the job, with the others spinning and asleep; what the caller alone spends; and jobs of growing size on one thread and
//! on all. Prints the least time and quartiles, because what interrupts a measurement only ever adds to it.
#![allow(clippy::print_stdout)] // a program that shows tables

use refeed_kernels::{Isa, ThreadPool, vecmath};
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Long enough for workers to stop spinning.
const NAP: Duration = Duration::from_millis(1);

/// Microseconds of `run`, each time after a pause: the least, and the quartiles.
fn measure(times: usize, pause: Option<Duration>, mut run: impl FnMut()) -> String {
    let mut samples: Vec<f64> = (0..times)
        .map(|_| {
            if let Some(pause) = pause {
                std::thread::sleep(pause);
            }
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    let at = |share: usize| samples[(samples.len() - 1) * share / 4];
    let [least, low, median, high] = [0, 1, 2, 3].map(at);
    format!("{least:9.2} {low:9.2} {median:9.2} {high:9.2}")
}

fn main() {
    let pool = ThreadPool::global();
    let threads = pool.threads();
    println!("{threads} threads; microseconds: least, quartiles");
    if threads < 2 {
        println!("one thread: nothing is shared");
        return;
    }
    // Each task waits for all others, so every thread takes one.
    let meet = || {
        let arrived = AtomicUsize::new(0);
        pool.run(threads, |_| {
            arrived.fetch_add(1, Ordering::SeqCst);
            while arrived.load(Ordering::SeqCst) < threads {
                spin_loop();
            }
        });
    };
    let empty = || pool.run(threads, |_| ());
    println!("all meet, spinning   {}", measure(20_000, None, meet));
    println!("all meet, asleep     {}", measure(400, Some(NAP), meet));
    println!("empty job, spinning  {}", measure(20_000, None, empty));
    println!("empty job, asleep    {}", measure(400, Some(NAP), empty));
    let isa = Isa::best();
    let data = vec![1f32; 1 << 20];
    for power in 12..=20 {
        let (all, part) = (&data[..1 << power], (1 << power) / 16);
        let sum = |i: usize| {
            black_box(vecmath::sum(isa, &all[i * part..][..part]));
        };
        let alone = measure(2000, None, || (0..16).for_each(sum));
        let shared = measure(2000, None, || pool.run(16, sum));
        let woken = measure(100, Some(NAP), || pool.run(16, sum));
        println!("2^{power} numbers, one thread     {alone}");
        println!("2^{power} numbers, all spinning   {shared}");
        println!("2^{power} numbers, others asleep  {woken}");
    }
}
