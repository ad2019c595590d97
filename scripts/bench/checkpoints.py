#!/usr/bin/env python3
"""Compares am-run's checkpoints with torch.distributed.checkpoint, on two ranks of one host.

  scripts/bench/checkpoints.py [BUILD] [--rounds N] [--folder DIR]      (default: build, 5, a temporary one)

Needs a Python with torch. The saved state consists of the parameters of the benchmarks' model (34 million, shape a of
jobs.py) and AdamW's moments: 0.4 GB, sharded over two ranks as by FSDP2. The order of the jobs changes from round to
round. The script measures:

  save      seconds in which am-run saves a step (from its log), against dcp.save of the same tensors as DTensors
  direct    the speed of the disk: seconds in which two processes each write as many bytes as a rank saves, with O_DIRECT
            in blocks of 16 MiB into a preallocated file, and fsync the file
  stall     seconds for which am-run with checkpoint.async interrupts training, against one memcpy of a rank's state
  listing   processor seconds of `am-repl FOLDER -c ls` on dcp.save's folder, against Python's FileSystemReader.read_metadata

Prints the medians over the rounds and their ratios.
"""

import argparse
import json
import mmap
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import jobs

SHAPE = jobs.SHAPES["a"]
PIECE = 16 << 20


def parameters():
    """Returns the names and shapes of the parameters of the benchmarks' model."""
    hidden, inner, vocab = SHAPE["hidden"], SHAPE["intermediate"], SHAPE["vocab"]
    found = {"model.embed_tokens.weight": (vocab, hidden), "lm_head.weight": (vocab, hidden),
             "model.norm.weight": (hidden,)}
    for layer in range(SHAPE["layers"]):
        at = f"model.layers.{layer}."
        found.update({f"{at}self_attn.{each}_proj.weight": (hidden, hidden) for each in "qkvo"})
        found.update({f"{at}mlp.{each}_proj.weight": (inner, hidden) for each in ("gate", "up")})
        found[f"{at}mlp.down_proj.weight"] = (hidden, inner)
        found.update({f"{at}{each}_layernorm.weight": (hidden,) for each in ("input", "post_attention")})
    return found


# ---- a PyTorch rank ----------------------------------------------------------------------------------


def peer_rank(folder):
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2,))
    state = {"model": {}, "optim": {"state": {}}}
    for name, shape in parameters().items():
        whole = torch.randn(shape)
        state["model"][name] = distribute_tensor(whole, mesh, [Shard(0)])
        state["optim"]["state"][name] = {each: distribute_tensor(whole, mesh, [Shard(0)])
                                         for each in ("exp_avg", "exp_avg_sq")}
    warnings.simplefilter("ignore")
    if dist.get_rank() == 0:
        shutil.rmtree(f"{folder}/peer", ignore_errors=True)
    dcp.save({"x": torch.ones(1)}, checkpoint_id=f"{folder}/warm")
    dist.barrier()
    start = time.perf_counter()
    dcp.save(state, checkpoint_id=f"{folder}/peer")
    dist.barrier()
    took = time.perf_counter() - start
    # Measures one copy of this rank's state into memory that has been allocated and touched before.
    own = [each.to_local() for each in state["model"].values()]
    own += [each.to_local() for states in state["optim"]["state"].values() for each in states.values()]
    target = torch.zeros(sum(each.numel() for each in own))
    start = time.perf_counter()
    at = 0
    for each in own:
        target[at : at + each.numel()].copy_(each.view(-1))
        at += each.numel()
    copied = time.perf_counter() - start
    if dist.get_rank() == 0:
        print(json.dumps({"save": took, "copy": copied}), flush=True)
    dist.barrier()
    os._exit(0)


def run_peer(folder):
    ranks = jobs.start_peers(__file__, ["--rank-in", folder])
    return json.loads([rank.communicate(timeout=300)[0] for rank in ranks][0])


# ---- am-run --------------------------------------------------------------------------------------------


def seconds(text):
    """Converts am-run's "41 ms" or "1.2 s" to seconds."""
    number, unit = text.split()
    return float(number) * {"us": 1e-6, "ms": 1e-3, "s": 1.0}[unit]


def run_ours(build, folder, background):
    (folder / "config.json").write_text(json.dumps(jobs.model_config(SHAPE)))
    text = jobs.plan_text(SHAPE, folder, 3, f'name = "fsdp2"\n{jobs.POLICY}')
    text = re.sub(r"\[checkpoint\][^\[]*", "", text)
    text += f"\n[checkpoint]\nevery = 1\nkeep = 1\nasync = {str(background).lower()}\n"
    plan = folder / "plan.toml"
    plan.write_text(text)
    run = folder / ("background" if background else "run")
    shutil.rmtree(run, ignore_errors=True)
    done = subprocess.run([build / "bin/am-run", plan, "--run-dir", run], capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=600, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    said = done.stdout + done.stderr
    pattern = r"copied in ([\d.]+ \w+)" if background else r"checkpoint .* in ([\d.]+ \w+)"
    times = [seconds(each) for each in re.findall(pattern, said)]
    saved = max((run / "checkpoints").glob("step-*"), key=lambda each: int(each.name[5:]))
    return statistics.median(times), saved


def write_direct(folder, size):
    """Writes `size` bytes with O_DIRECT in each of two processes at once. Returns the seconds until both have finished."""
    start = time.perf_counter()
    children = []
    for number in range(2):
        child = os.fork()
        if child == 0:
            file = os.open(folder / f"direct-{number}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT)
            os.posix_fallocate(file, 0, size)
            piece = mmap.mmap(-1, PIECE)
            for at in range(0, size, PIECE):
                os.pwrite(file, memoryview(piece)[: min(PIECE, size - at)], at)
            os.fsync(file)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    return time.perf_counter() - start


def processor_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


READ = """
import time
from torch.distributed.checkpoint import FileSystemReader
start = time.process_time()
FileSystemReader({!r}).read_metadata()
print(time.process_time() - start)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", type=Path, default=jobs.ROOT / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rank-in", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_in:
        peer_rank(options.rank_in)
    build = options.build.resolve()
    folder = Path(tempfile.mkdtemp(prefix="am-bench-", dir=options.folder))
    figures = {each: [] for each in ("save", "dcp.save", "direct", "stall", "memcpy")}
    try:
        for number in range(options.rounds):
            def peer():
                found = run_peer(str(folder))
                figures["dcp.save"].append(found["save"])
                figures["memcpy"].append(found["copy"])

            def ours():
                took, saved = run_ours(build, folder, False)
                figures["save"].append(took)
                size = max(each.stat().st_size for each in saved.glob("*.distcp"))
                figures["direct"].append(write_direct(folder, -(-size // 4096) * 4096))

            def background():
                figures["stall"].append(run_ours(build, folder, True)[0])

            steps = [peer, ours, background]
            for step in steps[number % 3 :] + steps[: number % 3]:
                step()
        median = {name: statistics.median(values) for name, values in figures.items()}
        for name, values in figures.items():
            print(f"{name:9} {median[name]:7.3f} s   ({min(values):.3f} .. {max(values):.3f})")
        print(f"dcp.save / save  {median['dcp.save'] / median['save']:.2f}")
        print(f"direct / save    {median['direct'] / median['save']:.2f}")
        print(f"stall / memcpy   {median['stall'] / median['memcpy']:.2f}")
        peer = folder / "peer"
        listed = statistics.median(processor_seconds([build / "bin/am-repl", peer, "-c", "ls"]) for _ in range(5))
        command = [sys.executable, "-c", READ.format(str(peer))]
        read = statistics.median(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
                                 for _ in range(3))
        loaded = statistics.median(processor_seconds(command) for _ in range(3))
        print(f"listing  am-repl {listed:.3f} s, Python {loaded:.3f} s with its imports, {read:.3f} s without: "
              f"{listed / loaded:.3f}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
