#!/usr/bin/env python3
"""am-run against PyTorch's own FSDP2 and DDP, on CPUs.

  scripts/bench/fsdp.py [BUILD] [--shape a|b] [--rounds N] [--steps N]     (default build: build)

Needs a Python with torch and transformers: the peer is transformers' Llama under fully_shard, a unit a
layer, or under DistributedDataParallel, with gradient clipping and torch.optim.AdamW(fused=True). Both
sides train the same shape from scratch on synthetic tokens: 2 ranks of one thread, Gloo, float32.

The jobs run one after the other in every round, so that a slow spell of the machine meets all of them.
Printed are, over the rounds, the medians of
  tokens/s   of the median step after the third
  peak       the largest resident set of a rank
  of it      what the rank added to the same program with its libraries loaded: the job's own memory
  launch     from the command to the first step (of PyTorch: two processes, without torchrun)
  1st step   from the command to the end of the first step
and their ratios to PyTorch's.
"""

import argparse
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SHAPES = {
    "a": dict(layers=8, hidden=512, intermediate=1376, heads=8, vocab=8192, seq=256, batch=4),
    "b": dict(layers=4, hidden=128, intermediate=352, heads=4, vocab=512, seq=64, batch=2),
}
POLICY = 'mp_policy = { param_dtype = "float32", reduce_dtype = "float32", output_dtype = "float32" }'


def model_config(shape):
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape["hidden"],
        "intermediate_size": shape["intermediate"],
        "num_hidden_layers": shape["layers"],
        "num_attention_heads": shape["heads"],
        "num_key_value_heads": shape["heads"],
        "vocab_size": shape["vocab"],
        "max_position_embeddings": shape["seq"],
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "hidden_act": "silu",
    }


# ---- PyTorch: one rank ---------------------------------------------------------------------------------


def peer_rank(kind, shape, steps):
    import torch
    import torch.distributed as dist
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**model_config(shape), attn_implementation="sdpa", use_cache=False))
    if kind == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    else:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    torch.manual_seed(dist.get_rank())
    if dist.get_rank() == 0:
        print("ready", 0, flush=True)
    for _ in range(steps):
        start = time.perf_counter()
        tokens = torch.randint(shape["vocab"], (shape["batch"], shape["seq"] + 1))
        logits = model(input_ids=tokens[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        if dist.get_rank() == 0:
            print("step", time.perf_counter() - start, flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if dist.get_rank() == 0:
        print("peak", peak * 1024, flush=True)
        print("loaded", loaded * 1024, flush=True)
    dist.destroy_process_group()


def run_peer(kind, name, steps):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = dict(os.environ, OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    common.update(WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", GLOO_SOCKET_IFNAME="lo")
    command = [sys.executable, __file__, "--rank-of", kind, "--shape", name, "--steps", str(steps)]
    begin = time.perf_counter()
    ranks = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**common, "RANK": r, "LOCAL_RANK": r})
        for r in "01"
    ]
    times, found, first = [], {}, {}
    for line in ranks[0].stdout:
        word, value = line.split()[:2]
        first.setdefault(word, time.perf_counter() - begin)
        if word == "step":
            times.append(float(value))
        else:
            found[word] = float(value)
    if any([rank.wait() for rank in ranks]):
        sys.exit(f"PyTorch's {kind} failed")
    return result(name, times, found["peak"], found["loaded"], first["ready"], first["step"])


# ---- am-run ----------------------------------------------------------------------------------------------


def plan_text(kind, shape, folder, steps):
    return f"""
[model]
path = "{folder}"
[mesh]
world_size = 2
ranks_per_node = 2
[strategy]
name = "{kind}"
{POLICY if kind == "fsdp2" else ""}
backend = "gloo"
[train]
seq_len = {shape["seq"]}
micro_batch_size = {shape["batch"]}
global_batch_size = {2 * shape["batch"]}
max_steps = {steps}
max_grad_norm = 1.0
[optimizer]
lr = 1e-3
[data]
kind = "synthetic"
[metrics]
every = 1
"""


def resident_peak(pid):
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def peak_of_loaded(build):
    job = subprocess.Popen([build / "bin/am-run", "--version"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(job.pid, 0)
    job.returncode = status
    return usage.ru_maxrss * 1024


class PeakOfChildren(threading.Thread):
    """The largest resident set that a child process of `pid` has had."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.bytes, self.over = pid, 0, threading.Event()

    def run(self):
        while not self.over.wait(0.1):
            for task in Path(f"/proc/{self.pid}/task").glob("*/children"):
                try:
                    children = task.read_text().split()
                except OSError:
                    continue
                self.bytes = max([self.bytes, *map(resident_peak, children)])


def run_ours(build, kind, name, steps, shared):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(model_config(SHAPES[name])))
        plan = Path(folder, "plan.toml")
        plan.write_text(plan_text(kind, SHAPES[name], folder, steps))
        env = dict(os.environ, OMP_NUM_THREADS="1", AM_SHARED_MEMORY="1" if shared else "0")
        begin, first, said = time.perf_counter(), {}, []
        job = subprocess.Popen(
            [build / "bin/am-run", plan, "--run-dir", Path(folder, "run")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        peak = PeakOfChildren(job.pid)
        peak.start()
        for line in job.stderr:
            said.append(line)
            first.setdefault(line.split()[0], time.perf_counter() - begin)
        if job.wait() != 0:
            sys.exit("am-run failed:\n" + "".join(said))
        peak.over.set()
        lines = Path(folder, "run", "metrics.jsonl").read_text().splitlines()
        times = [json.loads(line)["step_seconds"] for line in lines]
        return result(name, times, peak.bytes, peak_of_loaded(build), first["weights"], first["step"])


# ---- both ------------------------------------------------------------------------------------------------


def result(name, times, peak, loaded, launch, first):
    tokens = 2 * SHAPES[name]["batch"] * SHAPES[name]["seq"]
    return {
        "speed": tokens / statistics.median(times[3:]),
        "peak": peak / 2**20,
        "of it": (peak - loaded) / 2**20,
        "launch": launch,
        "1st step": first,
    }


FORMS = {
    "speed": "{:8.0f}",
    "peak": "{:4.0f} MiB",
    "of it": "{:4.0f} MiB",
    "launch": "{:5.2f} s",
    "1st step": "{:6.2f} s",
}


def compare(build, name, rounds, steps):
    jobs = {
        "PyTorch FSDP2": lambda: run_peer("fsdp2", name, steps),
        "am-run fsdp2": lambda: run_ours(build, "fsdp2", name, steps, True),
        "am-run fsdp2, Gloo": lambda: run_ours(build, "fsdp2", name, steps, False),
        "PyTorch DDP": lambda: run_peer("ddp", name, steps),
        "am-run ddp": lambda: run_ours(build, "ddp", name, steps, True),
        "am-run ddp, Gloo": lambda: run_ours(build, "ddp", name, steps, False),
    }
    found = {job: [] for job in jobs}
    for _ in range(rounds):
        for job, run in jobs.items():
            found[job].append(run())
    print(f"shape {name}: {SHAPES[name]}")
    print(f"{'':18s} {'tokens/s':>8s} {'peak':>8s} {'of it':>8s} {'launch':>7s} {'1st step':>8s}   ratios to PyTorch's")
    for job, results in found.items():
        peer = "PyTorch FSDP2" if "fsdp2" in job.lower() else "PyTorch DDP"
        line = f"{job:18s}"
        ratios = "  "
        for key, form in FORMS.items():
            own = statistics.median(r[key] for r in results)
            ratio = statistics.median(r[key] / p[key] for r, p in zip(results, found[peer]))
            line += " " + form.format(own)
            ratios += f" {ratio:5.2f}"
        print(line + ("" if job == peer else ratios), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default=ROOT / "build", type=Path)
    parser.add_argument("--shape", choices=sorted(SHAPES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rank-of", choices=("fsdp2", "ddp"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_of:
        return peer_rank(options.rank_of, SHAPES[options.shape], options.steps)
    for name in [options.shape] if options.shape else sorted(SHAPES):
        compare(options.build.resolve(), name, options.rounds, options.steps)


if __name__ == "__main__":
    main()
