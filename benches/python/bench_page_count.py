"""Caches of many pages: how long their validation takes, and a step that adds one page, from a thousand to a million.

A kernel that has never seen a cache meets every page once; from then on a step meets the page that is new. That pages
keep the rules is found out when they are put together, so a part of that is in the time in which the cache is made. The
steps see a window of 16 tokens, so that what grows is the cost of the pages and not the attention. A whole
`state.run` is timed, feeds and results of Python included. Counts are printed beside the times: they do not depend on
the machine. Nothing about time is asserted.
"""

import argparse
import resource
import time

import numpy as np
from bench_paged import model
from measure import bootstrap, report
from refeed import runtime
from refeed.onnx import PagedCacheProto

WINDOW, SIZE = 16, 8


def measured(pages, steps, clock):
    """Return what one cache of `pages` one-token pages costs."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (1, 1, pages, SIZE)).astype(np.float32)
    options = {"block_size": 1, "max_tokens": pages + steps + 1}
    first = runtime.PagedAttention()
    start = clock()
    _, cache, _ = first(np.zeros_like(rows), rows, rows, PagedCacheProto(), left_window_size=0, **options)
    made = clock() - start

    one = rows[:, :, :1]
    fresh = runtime.PagedAttention()
    start = clock()
    _, _, statistics = fresh(one, one, one, cache, left_window_size=WINDOW, **options)
    validated, looked = clock() - start, statistics.validated_pages

    context = runtime.RuntimeContext()
    kernel = runtime.register_paged_attention(context)
    state = runtime.PersistentValueState(model(pages + steps + 1, left_window_size=WINDOW), {"past": cache})
    feeds = {"Q": one, "K": one, "V": one}
    state.run(context, feeds)
    times, counts = [], []
    for _ in range(steps):
        start = clock()
        state.run(context, feeds)
        times.append(1e6 * (clock() - start))
        counts.append(kernel.statistics().validated_pages)
    return {
        f"{pages:,} pages: made, s": round(made, 3),
        f"{pages:,} pages: first step of a new kernel, s": round(validated, 3),
        f"{pages:,} pages: pages it met": looked,
        f"{pages:,} pages: a step, us": bootstrap(times),
        f"{pages:,} pages: pages that a step met": sorted(set(counts)),
    }


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pages", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.clock == "processor" else time.perf_counter
    results = {}
    for pages in arguments.pages:
        results |= measured(pages, arguments.steps, clock)
    results["most memory, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    report(results, as_json=arguments.json)


if __name__ == "__main__":
    main()
