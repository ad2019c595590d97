#!/usr/bin/env python3
"""Measures the time in which am-repl opens files with many tensors.

  scripts/bench/open_tensors.py [BUILD]     (default: build)

Prints the best and the median processor seconds of five runs of `am-repl FOLDER -c info` on sparse
safetensors files. The folders have one file of 1 to 160,000 tensors, or 92,160 tensors in 160 files with
an index, like a large mixture of experts. Each figure includes the start of am-repl; the folder with one
tensor shows how long the start takes. The aim is to open 92,160 tensors in under a second, in a time
proportional to the number of tensors.
"""

import json
import os
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
ROUNDS = 5


def name_of(number):
    layer, rest = divmod(number, 1536)
    expert, part = divmod(rest, 3)
    return f"model.layers.{layer}.mlp.experts.{expert}.{('gate', 'up', 'down')[part]}_proj.weight"


def write(path, numbers):
    header, end = {}, 0
    for number in numbers:
        header[name_of(number)] = {"dtype": "BF16", "shape": [64, 32], "data_offsets": [end, end + 4096]}
        end += 4096
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def one_file(folder, tensors):
    write(folder / "model.safetensors", range(tensors))


def many_files(folder, tensors, files):
    weight_map = {}
    each = tensors // files
    for index in range(files):
        numbers = range(index * each, (index + 1) * each)
        name = f"model-{index + 1:05}-of-{files:05}.safetensors"
        write(folder / name, numbers)
        weight_map.update({name_of(number): name for number in numbers})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def processor_seconds(folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([BUILD / "bin/am-repl", folder, "-c", "info"], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def report(what, make):
    with tempfile.TemporaryDirectory() as name:
        make(Path(name))
        times = [processor_seconds(name) for _ in range(ROUNDS)]
    print(f"{what:32s} best {min(times):6.2f} s  median {statistics.median(times):6.2f} s", flush=True)


def main():
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for tensors in (1, 5_000, 10_000, 20_000, 40_000, 160_000):
        report(f"{tensors} in one file", lambda folder, count=tensors: one_file(folder, count))
    report("92160 in 160 files", lambda folder: many_files(folder, 92_160, 160))


if __name__ == "__main__":
    main()
