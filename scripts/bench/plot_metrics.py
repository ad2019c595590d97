#!/usr/bin/env python3
"""Measures the time in which am-repl draws the loss of a run that has ended.

  scripts/bench/plot_metrics.py [BUILD]     (default: build)

The command is `am-repl RUN -c "metrics | plot loss"`, with its start, for a metrics.jsonl of 1 000 000 lines and one of
500. Prints the median of five rounds beside the aims: 1 s and 100 ms. The files are in the page cache.
"""

import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
ROUNDS = 5
AIMS = {1_000_000: 1.0, 500: 0.1}  # seconds, by lines

PLAN = """[model]
path = "model"
[mesh]
world_size = 1
[train]
seq_len = 16
max_steps = {steps}
"""


def make_run(folder, steps):
    """Writes the metrics of a run as am-run does."""
    folder.mkdir()
    (folder / "plan.toml").write_text(PLAN.format(steps=steps))
    row = {"grad_norm": 1.716237744890855, "lr": 0.001, "tokens": 128, "step_seconds": 0.242719874,
           "tokens_per_second": 527.3568986773618, "tokens_per_second_per_rank": 263.6784493386809,
           "peak_memory_bytes": 226992128, "mfu": None, "time": 1796041974.4690223, "data_seconds": 1.7025e-05,
           "waiting_seconds": 0.073331969, "validation_seconds": 0.0, "saving_seconds": 0.0}
    rest = json.dumps(row, separators=(",", ":"))[1:]
    with open(folder / "metrics.jsonl", "w", encoding="utf-8") as file:
        for step in range(1, steps + 1):
            loss = 3 + 8 / math.sqrt(step) + 0.1 * math.sin(step)
            file.write(f'{{"step":{step},"loss":{loss!r},{rest}\n')


def seconds_to_plot(run):
    start = time.perf_counter()
    done = subprocess.run([BUILD / "bin/am-repl", run, "-c", "metrics | plot loss"], stdout=subprocess.PIPE, check=True)
    seconds = time.perf_counter() - start
    if b"loss" not in done.stdout:
        sys.exit("nothing was drawn")
    return seconds


def main():
    with tempfile.TemporaryDirectory(prefix="am-plot-metrics-") as name:
        for steps, aim in AIMS.items():
            run = Path(name) / f"run-{steps}"
            make_run(run, steps)
            median = statistics.median(seconds_to_plot(run) for _ in range(ROUNDS))
            print(f"{steps:>9,} lines: {median * 1000:7.1f} ms, aim: {aim * 1000:5.0f} ms")


if __name__ == "__main__":
    main()
