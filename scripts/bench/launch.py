#!/usr/bin/env python3
"""Measures the time that a job needs to start.

  scripts/bench/launch.py [BUILD]     (default: build)

The time is from the start of am-run to the first finished collectives of its two ranks: rank 0
prints its "model" line after the ranks have joined, passed a barrier and compared their plans.
The aim is under 1 s. For comparison it prints the time in which one process loads libtorch, a
lower bound. It also measures how long the store takes to serve many processes that join together; the
aim is 256 in under 15 s.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
ROUNDS = 15

PLAN = f"""
[model]
path = "{ROOT}/tests/data/loop/model"
[mesh]
world_size = 2
[strategy]
name = "ddp"
[train]
seq_len = 16
max_steps = 1
[data]
kind = "tokens"
path = "{ROOT}/tests/data/loop/tokens.bin"
"""


def seconds_to_load():
    start = time.perf_counter()
    subprocess.run([BUILD / "bin/am-run", "--version"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def seconds_to_first_collective(folder, round_):
    plan = Path(folder, "plan.toml")
    plan.write_text(PLAN)
    start = time.perf_counter()
    command = [BUILD / "bin/am-run", plan, "--run-dir", Path(folder, f"run-{round_}")]
    job = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    seen = None
    for line in job.stderr:
        if seen is None and line.startswith("model "):
            seen = time.perf_counter() - start
    if job.wait() != 0 or seen is None:
        sys.exit("the job failed")
    return seen


def report(what, times):
    print(f"{what:45s} best {min(times):5.2f} s  median {statistics.median(times):5.2f} s")


def main():
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    loads, starts = [], []
    with tempfile.TemporaryDirectory() as folder:
        for round_ in range(ROUNDS):
            loads.append(seconds_to_load())
            starts.append(seconds_to_first_collective(folder, round_))
    report("one process, libtorch loaded", loads)
    report("am-run, first collective of two ranks", starts)
    for size in (16, 64, 256):
        subprocess.run([BUILD / "bin/join_ranks", str(size)], stderr=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    main()
