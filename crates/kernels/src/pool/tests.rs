use super::*;

#[test]
fn every_task_runs_once() {
    for threads in [1, 2, 5] {
        let pool = ThreadPool::new(threads);
        for tasks in [0, 1, 2, 7, 1000] {
            let hits: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
            pool.run(tasks, |i| {
                hits[i].fetch_add(1, Ordering::Relaxed);
            });
            assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
        }
    }
}

#[test]
fn many_short_jobs_from_several_threads() {
    let pool = ThreadPool::new(3);
    let total = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for round in 0..2000 {
                    pool.run(1 + round % 5, |_| {
                        total.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
        }
    });
    assert_eq!(total.load(Ordering::Relaxed), 3 * 400 * (1 + 2 + 3 + 4 + 5));
}

#[test]
fn nested_runs_are_serial_and_complete() {
    let pool = ThreadPool::new(4);
    let total = AtomicUsize::new(0);
    pool.run(6, |_| {
        let thread = std::thread::current().id();
        pool.run(5, |_| {
            assert_eq!(std::thread::current().id(), thread);
            total.fetch_add(1, Ordering::Relaxed);
        });
    });
    assert_eq!(total.load(Ordering::Relaxed), 30);
}

#[test]
fn a_panic_comes_out_in_the_caller_and_the_pool_lives_on() {
    let pool = ThreadPool::new(3);
    for bad in 0..9 {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            pool.run(9, |i| assert!(i != bad, "task {i}"));
        }));
        let payload = outcome.expect_err("a task panicked");
        assert_eq!(
            payload.downcast_ref::<String>().map(String::as_str),
            Some(format!("task {bad}").as_str())
        );
        let count = AtomicUsize::new(0);
        pool.run(9, |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.load(Ordering::Relaxed), 9);
    }
}

#[test]
fn workers_fall_asleep_and_are_woken() {
    let pool = ThreadPool::new(2);
    for _ in 0..3 {
        // without work they park after a moment, however long the system takes to let them
        while lock(&pool.shared.state).asleep == 0 {
            std::thread::yield_now();
        }
        assert!(!pool.awake());
        let here = std::thread::current().id();
        let met = AtomicBool::new(false);
        // the first task waits for the other thread, so the second can only run there
        pool.run(2, |_| {
            if std::thread::current().id() == here {
                while !met.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            } else {
                met.store(true, Ordering::Release);
            }
        });
        assert!(met.load(Ordering::Relaxed));
    }
    assert!(!ThreadPool::new(1).awake());
}

#[test]
fn chunks_and_tiles_cover_the_output_once() {
    let pool = ThreadPool::new(2);
    let mut out = vec![0u32; 23];
    Threads::new(&pool).chunks(&mut out, 5, true, |i, part| {
        part.iter_mut().for_each(|x| *x += 1 + i as u32);
    });
    let want: Vec<u32> = (0..23).map(|i| 1 + i / 5).collect();
    assert_eq!(out, want);

    let grid = Grid {
        batch: 2,
        rows: 5,
        cols: 7,
        tile_rows: 2,
        tile_cols: 3,
    };
    let mut out = vec![0usize; 70];
    Threads::new(&pool).tiles(&mut out, grid, true, |mut tile| {
        for i in 0..tile.rows {
            let first = (tile.batch * 5 + tile.row + i) * 7 + tile.col;
            for (j, x) in tile.row(i).iter_mut().enumerate() {
                *x += first + j;
            }
        }
    });
    assert_eq!(out, (0..70).collect::<Vec<_>>());
}

#[test]
fn strided_rows_cover_only_their_elements() {
    // [2, 3, 4] rows of 2 in the order [batch, position, head]
    let pool = ThreadPool::new(2);
    let layout = RowLayout {
        shape: [2, 3, 4],
        strides: [24, 2, 6],
        len: 2,
    };
    let mut out = vec![0usize; 48];
    let ran = Threads::new(&pool).rows(&mut out, &layout, 12, 5, true, |mut rows| {
        for i in 0..rows.count {
            let number = rows.line * 12 + rows.first + i;
            rows.row(i).fill(number + 1);
        }
    });
    assert!(ran);
    for batch in 0..2 {
        for head in 0..3 {
            for position in 0..4 {
                let at = batch * 24 + position * 6 + head * 2;
                let number = batch * 12 + head * 4 + position + 1;
                assert_eq!(out[at..at + 2], [number, number]);
            }
        }
    }
}

#[test]
fn overlapping_or_outlying_rows_are_refused() {
    let pool = ThreadPool::new(1);
    let refused = |shape, strides, len, have: usize, line| {
        let layout = RowLayout {
            shape,
            strides,
            len,
        };
        !Threads::new(&pool).rows(&mut vec![0u8; have], &layout, line, 1, false, |_| {
            panic!("a refused layout has no task")
        })
    };
    assert!(refused([1, 2, 3], [0, 5, 2], 2, 100, 1)); // head 1 begins inside head 0
    assert!(refused([1, 2, 3], [0, 6, 2], 2, 11, 1)); // one element short
    assert!(refused([1, 2, 3], [0, 6, 0], 2, 100, 1)); // all positions the same
    assert!(refused([1, 2, usize::MAX], [0, 6, 2], 2, 100, 1));
    assert!(refused([1, 2, 3], [0, 6, 2], 2, 12, 4)); // lines of four do not fill six rows
}

#[cfg(target_os = "linux")]
#[test]
fn a_dropped_pool_ends_its_threads() {
    let pool = ThreadPool::new(3);
    let shared = Arc::downgrade(&pool.shared);
    pool.run(8, |_| {});
    drop(pool);
    assert!(shared.upgrade().is_none());
}

#[cfg(unix)]
#[test]
fn a_forked_child_gets_threads_of_its_own() {
    let pool = ThreadPool::new(3);
    pool.run(8, |_| {});
    // SAFETY: the child only runs the pool and leaves by `_exit`, without unwinding into the test harness.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let count = AtomicUsize::new(0);
        pool.run(100, |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let own = pool.forked.get().is_some_and(|p| p.threads() == 3);
        let good = own && count.load(Ordering::Relaxed) == 100;
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!good)) };
    }
    assert!(child > 0);
    let mut status = -1;
    // SAFETY: `status` is a valid place to write to.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert!(pool.forked.get().is_none());
}

/// Ends after the first task; counts the looks.
#[derive(Debug, Default)]
struct Once {
    ended: AtomicBool,
    looks: AtomicUsize,
}

impl Watch for Once {
    fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn look(&self) -> bool {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.ended()
    }
}

/// Hands out work of which each task calls the function, with bytes to cut up.
type HandsOut<'a> = dyn Fn(Threads<'_>, &(dyn Fn() + Sync), &mut [u8]) + 'a;

#[test]
fn work_that_is_ended_begins_no_further_task() {
    let layout = RowLayout::contiguous([1, 1, 500], 2).unwrap();
    let grid = Grid {
        batch: 5,
        rows: 20,
        cols: 10,
        tile_rows: 1,
        tile_cols: 3,
    };
    for threads in [1, 3] {
        let pool = ThreadPool::new(threads);
        for parallel in [false, true] {
            let most = if parallel { threads } else { 1 };
            // Each task ends the work, so no thread begins a second one.
            let ran = |run: &HandsOut<'_>| {
                let (watch, count) = (Once::default(), AtomicUsize::new(0));
                let task = || {
                    count.fetch_add(1, Ordering::Relaxed);
                    watch.ended.store(true, Ordering::Relaxed);
                };
                run(Threads::new(&pool).watched(&watch), &task, &mut [0; 1000]);
                count.load(Ordering::Relaxed)
            };
            let counts = [
                ran(&|threads, task, _| threads.run(1000, parallel, |_| task())),
                ran(&|threads, task, out| threads.chunks(out, 2, parallel, |_, _| task())),
                ran(&|threads, task, out| threads.tiles(out, grid, parallel, |_| task())),
                ran(&|threads, task, out| {
                    assert!(threads.rows(out, &layout, 500, 3, parallel, |_| task()));
                }),
                // Tasks of a task end with it.
                ran(&|threads, task, _| {
                    threads.run(4, parallel, |_| threads.run(1000, parallel, |_| task()));
                }),
            ];
            assert!(
                counts.iter().all(|count| (1..=most).contains(count)),
                "{threads} {parallel}: {counts:?}"
            );
            let after = AtomicUsize::new(0);
            pool.run(1000, |_| {
                after.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(after.load(Ordering::Relaxed), 1000);
        }
    }
}

#[test]
fn work_that_has_ended_does_not_begin() {
    let pool = ThreadPool::new(2);
    let watch = Once {
        ended: AtomicBool::new(true),
        ..Once::default()
    };
    let threads = Threads::new(&pool).watched(&watch);
    assert!(threads.ended() && !Threads::new(&pool).ended());
    for tasks in [1, 100] {
        threads.run(tasks, true, |_| panic!("a task of work that has ended"));
    }
}

#[test]
fn looks_are_as_frequent_as_tasks_are_long() {
    let short = Duration::from_micros(900);
    let strides = (0..8).scan(1, |stride, _| {
        *stride = next_stride(*stride, short);
        Some(*stride)
    });
    assert_eq!(strides.collect::<Vec<_>>(), [2, 4, 8, 16, 32, 64, 64, 64]);
    assert_eq!(next_stride(64, SHORT), 1);

    let pool = ThreadPool::new(1);
    let looks = |tasks, task: &(dyn Fn() + Sync)| {
        let watch = Once::default();
        let count = AtomicUsize::new(0);
        Threads::new(&pool).watched(&watch).run(tasks, false, |_| {
            count.fetch_add(1, Ordering::Relaxed);
            task();
        });
        assert_eq!(count.load(Ordering::Relaxed), tasks);
        watch.looks.load(Ordering::Relaxed)
    };
    // Before each but the first.
    assert_eq!(looks(20, &|| std::thread::sleep(2 * SHORT)), 19);
    assert_eq!((looks(1, &|| ()), looks(2, &|| ())), (0, 1));
    let many = looks(6400, &|| ());
    assert!((100..6400).contains(&many), "{many}");
}
