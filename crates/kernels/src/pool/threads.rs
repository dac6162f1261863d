//! A pool together with who watches the work: the way in which kernels hand out tasks.

use super::{Base, Grid, RowLayout, Rows, ThreadPool, Tile, Watch};

/// Threads that kernels hand tasks to, and what may end their work early.
///
/// After work that was ended early, some tasks have not begun, and their parts of the output hold whatever was there:
/// whoever set the watch throws the output away.
#[derive(Debug, Clone, Copy)]
pub struct Threads<'a> {
    pool: &'a ThreadPool,
    watch: Option<&'a dyn Watch>,
}

impl<'a> Threads<'a> {
    /// The threads of a pool; nothing ends their work early.
    pub fn new(pool: &'a ThreadPool) -> Threads<'a> {
        Threads { pool, watch: None }
    }

    /// The same threads, whose work `watch` may end.
    pub fn watched<'b>(self, watch: &'b dyn Watch) -> Threads<'b>
    where
        'a: 'b,
    {
        Threads {
            pool: self.pool,
            watch: Some(watch),
        }
    }

    /// Whether the work is to end, so that what was computed does not count.
    pub fn ended(self) -> bool {
        self.watch.is_some_and(Watch::ended)
    }

    /// Number of threads, the caller included.
    pub fn threads(self) -> usize {
        self.pool.threads()
    }

    /// Whether another thread would take part in a job at once.
    pub fn awake(self) -> bool {
        self.pool.awake()
    }

    /// Calls `task` once for every index below `tasks`, and returns when all are done; on one thread unless `parallel`.
    /// Once the work is to end, tasks that have not begun are left out.
    ///
    /// # Panics
    /// When a task does, with its payload; tasks that have not begun are left out then.
    pub fn run(self, tasks: usize, parallel: bool, task: impl Fn(usize) + Sync) {
        self.pool.run_watched(tasks, parallel, self.watch, task);
    }

    /// Cuts `out` into chunks of `chunk` elements (the last may be shorter) and calls `task` with the index and
    /// elements of each; on one thread unless `parallel`.
    pub fn chunks<T: Send>(
        self,
        out: &mut [T],
        chunk: usize,
        parallel: bool,
        task: impl Fn(usize, &mut [T]) + Sync,
    ) {
        let (chunk, len) = (chunk.max(1), out.len());
        let base = Base::new(out);
        self.run(len.div_ceil(chunk), parallel, |i| {
            let start = i * chunk;
            // SAFETY: chunk `i` is `start..start + chunk`, cut at `len`; chunks of different tasks are disjoint.
            let part = unsafe { base.part(start, chunk.min(len - start)) };
            task(i, part);
        });
    }

    /// Cuts a row-major output into tiles and calls `task` for each; on one thread unless `parallel`.
    ///
    /// # Panics
    /// When `out` does not have the grid's elements.
    pub fn tiles<T: Send>(
        self,
        out: &mut [T],
        grid: Grid,
        parallel: bool,
        task: impl Fn(Tile<'_, T>) + Sync,
    ) {
        let Grid {
            batch,
            rows,
            cols,
            tile_rows,
            tile_cols,
        } = grid;
        assert_eq!(Some(out.len()), grid.elements(), "output of a grid");
        if out.is_empty() {
            return;
        }
        let (tile_rows, tile_cols) = (tile_rows.clamp(1, rows), tile_cols.clamp(1, cols));
        let (down, across) = (rows.div_ceil(tile_rows), cols.div_ceil(tile_cols));
        let base = Base::new(out);
        let one = |index: usize| {
            let (batch, inside) = (index / (down * across), index % (down * across));
            let row = inside / across * tile_rows;
            let col = inside % across * tile_cols;
            task(Tile {
                base: &base,
                batch,
                row,
                col,
                rows: tile_rows.min(rows - row),
                cols: tile_cols.min(cols - col),
                grid,
            });
        };
        let tasks = batch * down * across;
        self.run(tasks, parallel, one);
    }

    /// Calls `task` for every block of rows of a strided output; on one thread unless `parallel`. The rows of
    /// `layout`, in row-major order of its outer axes, form lines of `line` rows, and each line is cut into blocks of
    /// `block` rows. Returns whether it ran: `false` when the rows overlap, reach outside `out`, or do not fill lines.
    #[must_use]
    pub fn rows<T: Send>(
        self,
        out: &mut [T],
        layout: &RowLayout,
        line: usize,
        block: usize,
        parallel: bool,
        task: impl Fn(Rows<'_, T>) + Sync,
    ) -> bool {
        let count = layout.rows();
        if !layout.fits(out.len()) || !count.is_multiple_of(line.max(1)) {
            return false;
        }
        if count == 0 {
            return true;
        }
        let (line, block) = (line.max(1), block.clamp(1, line.max(1)));
        let across = line.div_ceil(block);
        let base = Base::new(out);
        let one = |index: usize| {
            let first = index % across * block;
            task(Rows {
                base: &base,
                layout,
                line: index / across,
                first,
                start: index / across * line + first,
                count: block.min(line - first),
            });
        };
        let tasks = count / line * across;
        self.run(tasks, parallel, one);
        true
    }
}
