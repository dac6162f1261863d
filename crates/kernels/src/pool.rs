//! A small thread pool, and the cutting of outputs into parts that tasks may write.
//!
//! [`ThreadPool::run`] calls one function for every index of a range; the caller works along. Tasks are claimed from
//! a counter, so which thread runs which one is open; what a task does depends on its index alone, so results do not.
//! Workers spin for a moment after a job, because a model step brings the next one soon, then sleep; [`ThreadPool::awake`]
//! says whether one spins, so that small jobs are shared only when that costs no wake-up. A `run` inside a task, or while another thread's job occupies the pool, is serial. A panic in a task is raised again in the caller.
//! A [`Watch`] may end a job early. After a fork the child's threads are gone: the pool notices by the process id and makes new ones.
//!
//! # The argument for the unsafe code of this file
//! *Jobs.* A job lives on the stack of `run`, which publishes a pointer to it under the lock `state`. A worker joins
//! only under that lock, while the pointer is there, and counts itself in `active`; `run` takes the pointer back under
//! the lock, so nobody joins after that, and waits until `active` is zero. The decrement is a worker's last access
//! to the job. So every access happens while `run` has not returned, and what the job borrows is alive. The function
//! is `Sync`, so calling it from several threads at once is allowed.
//!
//! *Parts.* `chunks`, `tiles` and `rows` of [`Threads`] give each task a part of one `&mut [T]`. Which elements a part has follows
//! from the task index by arithmetic that keeps parts of different tasks apart (shown at each); every index is claimed
//! once a job. So no two references to one element exist.

mod threads;

pub use threads::Threads;

use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Rounds that a worker looks for the next job before it sleeps. They take 49 us on a Zen 4 (`cargo bench -p refeed-benches
/// --bench pool`): some times what waking it would cost, and longer than the gaps between the nodes of a step are.
const SPIN: usize = 2000;

/// Most tasks that a thread does between two [`Watch::look`]s.
const LOOK_EVERY: usize = 64;

/// Tasks that together take less than this are looked between more seldom.
const SHORT: Duration = Duration::from_millis(1);

/// Ends work before all of its tasks have begun.
pub trait Watch: Sync + std::fmt::Debug {
    /// Whether the work is to end. Any thread asks, before each task; it costs next to nothing, and once it is true it
    /// stays so.
    fn ended(&self) -> bool;

    /// The same, asked where there is time for more than that: between long tasks, and every now and then between short
    /// ones.
    fn look(&self) -> bool {
        self.ended()
    }
}

/// The tasks of one thread, one after the other, as long as the watch lets it.
struct Pace<'w> {
    watch: Option<&'w dyn Watch>,
    /// Tasks until the next look, this one included.
    left: usize,
    /// Tasks between the last look and the next.
    stride: usize,
    looked: Option<Instant>,
}

/// Tasks until the next look, when the last `stride` ones took `span`.
fn next_stride(stride: usize, span: Duration) -> usize {
    match span < SHORT {
        true => (2 * stride).min(LOOK_EVERY),
        false => 1,
    }
}

impl<'w> Pace<'w> {
    fn new(watch: Option<&'w dyn Watch>) -> Pace<'w> {
        Pace {
            watch,
            left: 2,
            stride: 1,
            looked: None,
        }
    }

    /// Whether the next task is to begin.
    fn goes_on(&mut self) -> bool {
        let Some(watch) = self.watch else { return true };
        self.left -= 1;
        if self.left > 0 {
            return !watch.ended();
        }
        let now = Instant::now();
        if let Some(before) = self.looked.replace(now) {
            self.stride = next_stride(self.stride, now - before);
        }
        self.left = self.stride;
        !watch.look()
    }
}

/// Calls `task` for one index after the other, as long as the watch lets it.
fn in_turn(tasks: usize, watch: Option<&dyn Watch>, task: impl Fn(usize)) {
    let mut pace = Pace::new(watch);
    (0..tasks).take_while(|_| pace.goes_on()).for_each(task);
}

/// A fixed set of threads. See the module head.
#[derive(Debug)]
pub struct ThreadPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// One job at a time.
    occupied: AtomicBool,
    process: u32,
    /// The pool of a forked child.
    forked: OnceLock<Box<ThreadPool>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Counts jobs, so that a spinning worker sees a new one without the lock.
    epoch: AtomicU64,
    /// Workers that look for a job or do one.
    awake: AtomicUsize,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    job: Option<JobPointer>,
    /// Workers that wait to be woken.
    asleep: usize,
    closed: bool,
}

#[derive(Debug, Clone, Copy)]
struct JobPointer(*const Job<'static>);

// SAFETY: the job is `Sync` (its function is), and is only reached as the module head says.
unsafe impl Send for JobPointer {}

struct Job<'f> {
    call: &'f (dyn Fn(usize) + Sync),
    tasks: usize,
    watch: Option<&'f dyn Watch>,
    next: AtomicUsize,
    active: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Job<'_> {
    /// Claims and runs tasks until none is left or the watch ends the work; keeps the first panic.
    fn work(&self) {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut pace = Pace::new(self.watch);
            loop {
                let task = self.next.fetch_add(1, Ordering::Relaxed);
                if task >= self.tasks || !pace.goes_on() {
                    break;
                }
                (self.call)(task);
            }
        }));
        if let Err(payload) = outcome {
            self.next.store(self.tasks, Ordering::Relaxed);
            lock(&self.panic).get_or_insert(payload);
        }
    }
}

thread_local! {
    /// Whether this thread is inside a task.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ThreadPool {
    /// A pool of `threads` threads, the caller of [`ThreadPool::run`] being one. Threads that the system refuses are
    /// done without.
    pub fn new(threads: usize) -> ThreadPool {
        let shared = Arc::new(Shared::default());
        let workers = (1..threads)
            .map_while(|_| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name("refeed-worker".into())
                    .spawn(move || worker(&shared))
                    .ok()
            })
            .collect();
        ThreadPool {
            shared,
            workers,
            occupied: AtomicBool::new(false),
            process: std::process::id(),
            forked: OnceLock::new(),
        }
    }

    /// The pool that sessions share, with as many threads as the process may use: processors it is bound to and, on Linux,
    /// the quota of its control group included.
    pub fn global() -> &'static ThreadPool {
        static POOL: OnceLock<ThreadPool> = OnceLock::new();
        POOL.get_or_init(|| {
            ThreadPool::new(std::thread::available_parallelism().map_or(1, NonZero::get))
        })
    }

    /// Number of threads, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Whether another thread would take part in a job at once, because it spins.
    pub fn awake(&self) -> bool {
        if self.process != std::process::id() {
            return self.forked.get().is_some_and(|child| child.awake());
        }
        self.shared.awake.load(Ordering::Relaxed) > 0
    }

    /// Calls `task` once for every index below `tasks`, on all threads, and returns when all are done.
    ///
    /// # Panics
    /// When a task does, with its payload; tasks that have not begun are left out then.
    pub fn run(&self, tasks: usize, task: impl Fn(usize) + Sync) {
        self.run_watched(tasks, true, None, task);
    }

    /// [`ThreadPool::run`], on one thread unless `parallel`, until all tasks are done or `watch` ends the work.
    fn run_watched(
        &self,
        tasks: usize,
        parallel: bool,
        watch: Option<&dyn Watch>,
        task: impl Fn(usize) + Sync,
    ) {
        if !parallel || tasks <= 1 || self.workers.is_empty() || INSIDE.get() {
            return in_turn(tasks, watch, task);
        }
        if self.process != std::process::id() {
            let child = self
                .forked
                .get_or_init(|| Box::new(ThreadPool::new(self.threads())));
            return child.run_watched(tasks, parallel, watch, task);
        }
        if self.occupied.swap(true, Ordering::Acquire) {
            return in_turn(tasks, watch, task);
        }
        self.run_shared(tasks, watch, &task);
    }

    /// [`ThreadPool::run`] for the one caller that set `occupied`.
    fn run_shared(&self, tasks: usize, watch: Option<&dyn Watch>, call: &(dyn Fn(usize) + Sync)) {
        let job = Job {
            call,
            tasks,
            watch,
            next: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            panic: Mutex::new(None),
        };
        let asleep = {
            let mut state = lock(&self.shared.state);
            state.job = Some(JobPointer(std::ptr::from_ref(&job).cast()));
            self.shared.epoch.fetch_add(1, Ordering::Release);
            state.asleep
        };
        if asleep > 0 {
            self.shared.wake.notify_all(); // a system call
        }
        INSIDE.set(true);
        job.work(); // catches panics, so the job is always taken back below
        INSIDE.set(false);
        lock(&self.shared.state).job = None;
        let mut rounds = 0usize;
        while job.active.load(Ordering::Acquire) != 0 {
            rounds += 1;
            if rounds < SPIN {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        self.occupied.store(false, Ordering::Release);
        let panic = lock(&job.panic).take();
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return; // a forked child: the threads are not there to be joined
        }
        lock(&self.shared.state).closed = true;
        self.shared.epoch.fetch_add(1, Ordering::Release);
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker catches panics of tasks, so joining cannot fail.
            let _ = worker.join();
        }
    }
}

fn worker(shared: &Shared) {
    INSIDE.set(true);
    shared.awake.fetch_add(1, Ordering::Relaxed);
    let mut seen = 0;
    loop {
        for _ in 0..SPIN {
            if shared.epoch.load(Ordering::Acquire) != seen {
                break;
            }
            std::hint::spin_loop();
        }
        let job = {
            let mut state = lock(&shared.state);
            loop {
                if state.closed {
                    return;
                }
                let epoch = shared.epoch.load(Ordering::Acquire);
                if epoch != seen {
                    seen = epoch;
                    break;
                }
                state.asleep += 1;
                shared.awake.fetch_sub(1, Ordering::Relaxed);
                state = shared
                    .wake
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                state.asleep -= 1;
                shared.awake.fetch_add(1, Ordering::Relaxed);
            }
            let Some(JobPointer(job)) = state.job else {
                continue;
            };
            // SAFETY: the pointer is there under the lock, so `run_shared` has not returned and will see `active`.
            let job = unsafe { &*job };
            job.active.fetch_add(1, Ordering::Relaxed);
            job
        };
        job.work();
        job.active.fetch_sub(1, Ordering::Release);
    }
}

/// A mutable slice in disguise, that tasks take parts of.
struct Base<'a, T> {
    start: *mut T,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: tasks get disjoint parts, so sharing it is like sending each part to its thread.
unsafe impl<T: Send> Sync for Base<'_, T> {}

impl<'a, T> Base<'a, T> {
    fn new(slice: &'a mut [T]) -> Self {
        Base {
            start: slice.as_mut_ptr(),
            len: slice.len(),
            slice: PhantomData,
        }
    }

    /// # Safety
    /// No other part that is alive has one of these elements.
    #[allow(clippy::mut_from_ref)] // the point of the type
    unsafe fn part(&self, start: usize, count: usize) -> &mut [T] {
        assert!(
            start <= self.len && count <= self.len - start,
            "part of an output"
        );
        // SAFETY: in bounds by the assertion, exclusive by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), count) }
    }
}

/// Shape of a row-major output `[batch, rows, cols]` and of its tiles.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    /// Matrices.
    pub batch: usize,
    /// Rows of each.
    pub rows: usize,
    /// Columns of each.
    pub cols: usize,
    /// Rows of a tile.
    pub tile_rows: usize,
    /// Columns of a tile.
    pub tile_cols: usize,
}

impl Grid {
    fn elements(&self) -> Option<usize> {
        self.batch.checked_mul(self.rows)?.checked_mul(self.cols)
    }
}

/// One tile of a row-major output; the only way to its elements.
pub struct Tile<'a, T> {
    base: &'a Base<'a, T>,
    grid: Grid,
    /// Index of the matrix.
    pub batch: usize,
    /// First row of the tile in its matrix.
    pub row: usize,
    /// First column.
    pub col: usize,
    /// Rows of the tile.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
}

impl<T> Tile<'_, T> {
    /// The elements of row `i` of the tile.
    ///
    /// # Panics
    /// When the tile has no such row.
    #[inline]
    pub fn row(&mut self, i: usize) -> &mut [T] {
        assert!(i < self.rows, "row of a tile");
        let start = (self.batch * self.grid.rows + self.row + i) * self.grid.cols + self.col;
        // SAFETY: tiles of different tasks differ in batch, row range or column range, so their elements do;
        // within this one, `&mut self` allows one row at a time.
        unsafe { self.base.part(start, self.cols) }
    }
}

/// Where the rows of an output lie: three outer axes with strides in elements, and dense rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowLayout {
    /// Extents of the outer axes.
    pub shape: [usize; 3],
    /// Strides of the outer axes, in elements.
    pub strides: [usize; 3],
    /// Elements of a row.
    pub len: usize,
}

impl RowLayout {
    /// Row-major rows; `None` when the extent overflows.
    pub fn contiguous(shape: [usize; 3], len: usize) -> Option<RowLayout> {
        let middle = len.checked_mul(shape[2])?;
        let outer = middle.checked_mul(shape[1])?;
        outer.checked_mul(shape[0])?;
        Some(RowLayout {
            shape,
            strides: [outer, middle, len],
            len,
        })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.shape
            .iter()
            .try_fold(1usize, |n, &d| n.checked_mul(d))
            .unwrap_or(usize::MAX)
    }

    /// Whether no two rows share an element and all lie below `len`.
    pub(crate) fn fits(&self, len: usize) -> bool {
        if self.rows() == 0 || self.len == 0 {
            return true;
        }
        // From the smallest stride up, each axis must step over everything that the axes below it reach.
        let mut axes = [0, 1, 2];
        axes.sort_by_key(|&axis| self.strides[axis]);
        let mut reach = self.len;
        for axis in axes {
            if self.shape[axis] == 1 {
                continue;
            }
            if self.strides[axis] < reach {
                return false;
            }
            let Some(span) = self.strides[axis]
                .checked_mul(self.shape[axis] - 1)
                .and_then(|span| span.checked_add(reach))
            else {
                return false;
            };
            reach = span;
        }
        reach <= len
    }

    #[inline]
    fn offset(&self, row: usize) -> usize {
        let [_, b, c] = self.shape;
        let (outer, k) = (row / c, row % c);
        outer / b * self.strides[0] + outer % b * self.strides[1] + k * self.strides[2]
    }
}

/// A block of rows of a strided output; the only way to their elements.
pub struct Rows<'a, T> {
    base: &'a Base<'a, T>,
    layout: &'a RowLayout,
    /// Index of the line that the block is part of.
    pub line: usize,
    /// First row of the block in its line.
    pub first: usize,
    start: usize,
    /// Rows of the block.
    pub count: usize,
}

impl<T> Rows<'_, T> {
    /// The elements of row `i` of the block.
    ///
    /// # Panics
    /// When the block has no such row.
    #[inline]
    pub fn row(&mut self, i: usize) -> &mut [T] {
        assert!(i < self.count, "row of a block");
        if self.layout.len == 0 {
            return &mut [];
        }
        let start = self.layout.offset(self.start + i);
        // SAFETY: blocks of different tasks have different row numbers, and `RowLayout::fits` found that rows share
        // no element; within this one, `&mut self` allows one row at a time.
        unsafe { self.base.part(start, self.layout.len) }
    }
}

#[cfg(test)]
mod tests;
