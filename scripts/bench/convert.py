#!/usr/bin/env python3
"""Compares the conversion of a large checkpoint with a plain copy of its bytes.

  scripts/bench/convert.py [BUILD] [--gb N] [--rounds N] [--folder DIR]      (default: build, 8, 2, a temporary one)

Generates a model of N GB in bfloat16, in safetensors files of 2 GB. The following commands take turns, each with an empty
page cache if the script may empty it (as root): `cp` and fsync of all files; and `am-repl SRC -c "export DST --format F"`
three times: from the model to PyTorch's distributed checkpoint, from this checkpoint back to safetensors, and from the model
to safetensors of float16. Prints seconds, their ratio to cp's in the same round, and peak memory without mapped files.

The aims: at most 1.3 times cp's seconds, under 200 MB.
"""

import argparse
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE = 2 << 30
HIDDEN, INNER, VOCAB = 4096, 11008, 32000


def parameters(layers):
    found = [("model.embed_tokens.weight", (VOCAB, HIDDEN)), ("model.norm.weight", (HIDDEN,)), ("lm_head.weight", (VOCAB, HIDDEN))]
    for layer in range(layers):
        at = f"model.layers.{layer}."
        found += [(f"{at}self_attn.{each}_proj.weight", (HIDDEN, HIDDEN)) for each in "qkvo"]
        found += [(f"{at}mlp.{each}_proj.weight", (INNER, HIDDEN)) for each in ("gate", "up")]
        found.append((f"{at}mlp.down_proj.weight", (HIDDEN, INNER)))
        found += [(f"{at}{each}_layernorm.weight", (HIDDEN,)) for each in ("input", "post_attention")]
    return found


def size_of(shape):
    size = 2
    for each in shape:
        size *= each
    return size


def make(folder, goal):
    layers = 1
    while sum(size_of(shape) for _, shape in parameters(layers)) < goal:
        layers += 1
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER,
        "num_attention_heads": 32, "num_key_value_heads": 32, "num_hidden_layers": layers, "vocab_size": VOCAB,
        "rms_norm_eps": 1e-05, "tie_word_embeddings": False, "hidden_act": "silu"}))
    files, filled = [[]], 0
    for each in parameters(layers):
        if filled + size_of(each[1]) > FILE:
            files.append([])
            filled = 0
        files[-1].append(each)
        filled += size_of(each[1])
    weight_map = {}
    noise = bytearray(os.urandom(1 << 24))
    noise[1::2] = bytes(each & 0x80 | 0x3C for each in noise[1::2])  # values near 0.01 in bfloat16
    for number, tensors in enumerate(files):
        name = f"model-{number + 1:05}-of-{len(files):05}.safetensors"
        header, end = {}, 0
        for tensor, shape in tensors:
            header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size_of(shape)]}
            end += size_of(shape)
            weight_map[tensor] = name
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / name, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            while end > 0:
                file.write(noise[:end])
                end -= min(end, len(noise))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def bytes_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def empty_cache():
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        pass


def copy(source, goal):
    begin = time.perf_counter()
    subprocess.run(["cp", "-r", source, goal], check=True)
    for path in goal.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    return time.perf_counter() - begin, 0


def export(am_repl, source, goal, *options):
    empty_cache()
    command = " ".join(["export", str(goal), *options])
    begin = time.perf_counter()
    process = subprocess.Popen([am_repl, source, "-c", command], stdout=subprocess.DEVNULL)
    most = 0
    while process.poll() is None:
        try:
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    most = max(most, int(line.split()[1]) * 1024)
        except OSError:
            pass
        time.sleep(0.01)
    if process.returncode != 0:
        raise SystemExit(f"failed: {command}")
    return time.perf_counter() - begin, most


def command_line(description):
    """Parses the options of benchmarks on large generated models; returns them and the path of
    am-repl."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=str(ROOT / "build"))
    parser.add_argument("--gb", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    return options, Path(options.build).resolve() / "bin/am-repl"


def main():
    options, am_repl = command_line(__doc__)
    with tempfile.TemporaryDirectory(prefix="am-convert-", dir=options.folder) as name:
        place = Path(name)
        source, dcp, goal = place / "source", place / "dcp", place / "goal"
        source.mkdir()
        make(source, options.gb * 1e9)
        ways = {
            "safetensors to dcp": lambda: export(am_repl, source, dcp, "--format", "dcp"),
            "dcp to safetensors": lambda: export(am_repl, dcp, goal, "--format", "hf"),
            "bfloat16 to float16": lambda: export(am_repl, source, goal, "--format", "hf", "--dtype", "float16"),
        }
        ratios = {way: [] for way in ways}
        for _ in range(options.rounds):
            empty_cache()
            whole, _ = copy(source, goal)
            print(f"{'cp and fsync':20} {bytes_of(source) / 1e9:5.2f} GB {whole:6.2f} s", flush=True)
            for way, convert in ways.items():
                shutil.rmtree(goal, ignore_errors=True)
                seconds, most = convert()
                ratios[way].append(seconds / whole)
                print(f"{way:20} {seconds:6.2f} s  {seconds / whole:.2f} times cp's seconds  {most / 1e6:5.0f} MB",
                      flush=True)
            shutil.rmtree(goal)
            shutil.rmtree(dcp)
        for way, found in ratios.items():
            print(f"{way:20} median {statistics.median(found):.2f} times cp's seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
