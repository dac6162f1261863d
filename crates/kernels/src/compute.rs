//! The handle that every kernel gets.

use crate::pool::{Threads, Watch};
use crate::{Isa, ThreadPool};

/// Elementary steps (multiply-adds, or elements moved) below which handing a part to another thread costs more than it
/// saves, even when that thread spins. Measured by `cargo bench -p refeed-benches --bench pool` on two cores of an AMD EPYC
/// (Zen 4): until both threads are in the job and out of it again 1.0 us pass, so a job must take 2 us alone to gain, and
/// kernels on warm caches do 17 (attention of one query row) to 34 steps a nanosecond (of four): 2 to 4 us here.
const PARALLEL_WORK: usize = 1 << 16;

/// The same when the other threads sleep. Measured likewise: waking them costs the caller 2.4 to 5 us, and they arrive
/// after 13 to 25 us at best. A job of this size takes 15 to 30 us alone: it gains little itself, but those that follow it
/// find the others awake.
const WAKING_WORK: usize = 1 << 19;

/// Which instruction set and which threads a kernel uses.
#[derive(Debug, Clone, Copy)]
pub struct Compute<'a> {
    /// Instruction set.
    pub isa: Isa,
    /// Threads.
    pub pool: Threads<'a>,
}

impl<'a> Compute<'a> {
    /// Kernels on this instruction set and these threads.
    pub fn new(isa: Isa, pool: &'a ThreadPool) -> Self {
        Compute {
            isa,
            pool: Threads::new(pool),
        }
    }

    /// The same, where `watch` may end the work of a kernel between two of its tasks. What it wrote until then is to be
    /// thrown away.
    pub fn watched<'b>(self, watch: &'b dyn Watch) -> Compute<'b>
    where
        'a: 'b,
    {
        Compute {
            isa: self.isa,
            pool: self.pool.watched(watch),
        }
    }

    /// Whether `work` elementary steps (multiply-adds, or elements moved) are worth several threads. The answer depends on whether they
    /// are awake, results do not.
    pub fn parallel(&self, work: usize) -> bool {
        let worth = work >= WAKING_WORK || (work >= PARALLEL_WORK && self.pool.awake());
        worth && self.pool.threads() > 1
    }

    /// Calls `task` for every index below `tasks`; on several threads when the whole is worth it.
    pub fn run(&self, tasks: usize, work: usize, task: impl Fn(usize) + Sync) {
        self.pool.run(tasks, self.parallel(work), task);
    }
}

impl Default for Compute<'static> {
    /// The best instruction set of this machine and the shared pool.
    fn default() -> Self {
        Compute::new(Isa::best(), ThreadPool::global())
    }
}
