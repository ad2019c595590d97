#!/usr/bin/env python3
"""Compares am-repl's commands on a large checkpoint with a plain read of its bytes.

  scripts/bench/look.py [BUILD] [--gb N] [--rounds N] [--folder DIR]      (default: build, 8, 2, a temporary one)

Generates two models of N GB in bfloat16, as convert.py does, with different values everywhere. These commands take
turns: `cat` of one model and of both; `am-repl` with `info`, `stats *`, `diff` and `drift`. Each reads first from the
disk, with an empty page cache if the script may empty it (as root), and then from the page cache. Prints median
seconds, the speed relative to cat of the same bytes, and peak resident memory including mapped files.

The aims: `info` in under 0.2 s, the other commands at no less than 0.5 of cat's speed and in under 300 MB.
"""

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from convert import command_line, empty_cache, make


PLACES = ("disk", "cache")


def run(command, place):
    """Returns (seconds, peak bytes) of a command; empties the page cache first if `place` is "disk"."""
    if place == "disk":
        empty_cache()
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"failed: {command}")
    return time.perf_counter() - begin, usage.ru_maxrss * 1024


def main():
    options, am_repl = command_line(__doc__)
    with tempfile.TemporaryDirectory(prefix="am-look-", dir=options.folder) as name:
        one, other = Path(name) / "one", Path(name) / "other"
        for folder in (one, other):
            folder.mkdir()
            make(folder, options.gb * 1e9)
        cat_one, cat_both = (["cat", *(path for folder in folders for path in sorted(folder.glob("*.safetensors")))]
                             for folders in ((one,), (one, other)))
        jobs = {
            "cat of one": (cat_one, None), "cat of both": (cat_both, None),
            "info": ([am_repl, one, "-c", "info"], None), "stats *": ([am_repl, one, "-c", "stats *"], "cat of one"),
            "diff": ([am_repl, one, "-c", f"diff {other}"], "cat of both"),
            "drift": ([am_repl, one, "-c", f"drift {other}"], "cat of both"),
        }
        found = {(job, place): [] for job in jobs for place in PLACES}
        for _ in range(options.rounds):
            for job, (command, _) in jobs.items():
                for place in PLACES:
                    found[job, place].append(run(command, place))
        seconds = {each: statistics.median(took for took, _ in rounds) for each, rounds in found.items()}
        for job, (_, beside) in jobs.items():
            line = f"{job:12}"
            for place in PLACES:
                line += f"  {place} {seconds[job, place]:6.2f} s"
                line += f" {seconds[beside, place] / seconds[job, place]:.2f} of cat's speed" if beside else " " * 20
            print(f"{line}  {max(peak for place in PLACES for _, peak in found[job, place]) / 1e6:4.0f} MB", flush=True)


if __name__ == "__main__":
    main()
