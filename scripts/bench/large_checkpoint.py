#!/usr/bin/env python3
"""Measures how single ranks of a job with thousands of ranks resume from a checkpoint.

  scripts/bench/large_checkpoint.py [BUILD] [--ranks N] [--folder DIR]      (default: build, 16384, a temporary one)

Generates a checkpoint of Llama 3.1 405B under tp 8, pp 16 and dp_shard N / 128 with AdamW: the index that a job of N ranks
would write, and one sparse data file per rank (16,384 files take minutes). The program tests/tools/large_checkpoint.cpp then
checks all files as rank 0 does, and opens the checkpoint as each of four ranks does. Prints seconds, peak resident memory
including the mapped index and, if strace is installed, the number of opened data files. The aim: 300 MB and 1 s per rank.
"""

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def plan_text(ranks):
    text = (ROOT / "plans/llama-3.1-405b-512gpu.toml").read_text()
    changes = {"models/": f"{ROOT}/plans/models/", "world_size = 512": f"world_size = {ranks}",
               "global_batch_size = 256": f"global_batch_size = {ranks // 2}"}
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def files_opened(command, folder):
    trace = folder / "trace"
    subprocess.run(["strace", "-f", "-qq", "-e", "trace=openat", "-o", trace, *command], check=True, stdout=subprocess.DEVNULL)
    return trace.read_text().count(".distcp")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("build", nargs="?", default=ROOT / "build", type=Path)
    arguments.add_argument("--ranks", type=int, default=16384)
    arguments.add_argument("--folder", type=Path)
    options = arguments.parse_args()
    subprocess.run(["ninja", "-C", options.build, "large_checkpoint"], check=True, stdout=subprocess.DEVNULL)
    program = options.build / "bin/large_checkpoint"
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        plan = folder / "plan.toml"
        plan.write_text(plan_text(options.ranks))
        saved = folder / "step-100"
        if not (saved / "checkpoint.json").exists():
            subprocess.run([program, "make", plan, saved], check=True)
        subprocess.run([program, "look", plan, saved], check=True)
        for rank in (0, 1, options.ranks // 2, options.ranks - 1):
            command = [program, "open", plan, saved, str(rank)]
            subprocess.run(command, check=True)
            if shutil.which("strace"):
                print("  data files opened:", files_opened(command, folder))


if __name__ == "__main__":
    main()
