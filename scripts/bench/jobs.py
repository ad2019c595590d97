"""Runs jobs of two ranks with am-run and with PyTorch for the benchmarks, and compares their figures.

Both sides train the same model from scratch on synthetic tokens: 2 ranks of one thread, Gloo,
float32, gradient clipping and AdamW. Figures of a job:
  tokens/s   tokens of all ranks in a step, divided by the median time of the steps after the third
  cpu        processor seconds of a rank in a step after the third; other programs hardly affect it
  peak       largest resident set of a rank
  of it      `peak` without the peak of a process that has only loaded its libraries
  launch     time from the command until the model is ready to train (PyTorch's two processes are
             started without torchrun)
  1st step   time from the command to the end of the first step
With --busy N, N programs that only compute run beside every job.
"""

import argparse
import contextlib
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


# ---- PyTorch -----------------------------------------------------------------------------------------------


def plain_loss(model, tokens):
    """Returns the cross-entropy of a model whose logits are not sharded."""
    import torch

    logits = model(input_ids=tokens[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def train_peer(make, shape, steps, replicas=2, loss_of=plain_loss, clip=None, passes=None):
    """Runs a PyTorch rank. `make()` returns the sharded model. `replicas` is 2 if the two ranks
    train on different samples, and 1 if both ranks train on the same samples. `loss_of(model,
    tokens)` returns the loss. `clip()`, if set, replaces clip_grad_norm_. `passes(model, tokens)`,
    if set, replaces loss_of and the backward pass, and returns the loss."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.AdamW(parameter_groups(model), lr=1e-3, fused=True)
    clip = clip or (lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
    torch.manual_seed(dist.get_rank() if replicas == 2 else 0)
    if dist.get_rank() == 0:
        print("ready", 0, flush=True)
    for _ in range(steps):
        start = time.perf_counter()
        tokens = torch.randint(shape["vocab"], (shape["batch"], shape["seq"] + 1))
        if passes:
            loss = passes(model, tokens)
        else:
            loss = loss_of(model, tokens)
            loss.backward()
        clip()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        if dist.get_rank() == 0:
            print("step", time.perf_counter() - start, time.process_time(), flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if dist.get_rank() == 0:
        print("peak", peak * 1024, flush=True)
        print("loaded", loaded * 1024, flush=True)
    dist.destroy_process_group()


def parameter_groups(model):
    """Returns the optimizer's parameter groups. DTensors and plain tensors are in separate groups,
    because a group of a fused optimizer may hold only one kind."""
    from torch.distributed.tensor import DTensor

    sharded = [each for each in model.parameters() if isinstance(each, DTensor)]
    plain = [each for each in model.parameters() if not isinstance(each, DTensor)]
    return [{"params": group} for group in (sharded, plain) if group]


def start_peers(script, arguments):
    """Starts `script` in two processes, as two ranks with one thread each. Returns the processes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = dict(os.environ, OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    common.update(WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", GLOO_SOCKET_IFNAME="lo")
    command = [sys.executable, script, *arguments]
    return [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**common, "RANK": r, "LOCAL_RANK": r})
        for r in "01"
    ]


def run_peer(script, arguments, shape, replicas=2):
    """Runs `script` in two processes and returns the figures of rank 0. With `arguments`, the
    script calls train_peer."""
    begin = time.perf_counter()
    ranks = start_peers(script, arguments)
    times, cpu, found, first = [], [], {}, {}
    for line in ranks[0].stdout:
        word, value, *more = line.split()
        first.setdefault(word, time.perf_counter() - begin)
        if word == "step":
            times.append(float(value))
            cpu.append(float(more[0]))
        else:
            found[word] = float(value)
    if any([rank.wait() for rank in ranks]):
        sys.exit(f"PyTorch failed: {' '.join(arguments)}")
    return figures(shape, replicas, times, cpu, found["peak"], found["loaded"], first["ready"], first["step"])


# ---- am-run ----------------------------------------------------------------------------------------------


def plan_text(shape, folder, steps, strategy, mesh="", replicas=2):
    """Returns a plan for two ranks. `strategy` and `mesh` are lines of the plan's sections
    [strategy] and [mesh]."""
    return f"""
[model]
path = "{folder}"
[mesh]
world_size = 2
ranks_per_node = 2
{mesh}
[strategy]
{strategy}
backend = "gloo"
[train]
seq_len = {shape["seq"]}
micro_batch_size = {shape["batch"]}
global_batch_size = {replicas * shape["batch"]}
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


def children_of(pid):
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            yield from task.read_text().split()
        except OSError:
            pass


def processor_seconds(pid):
    """Returns the mean processor seconds so far of the ranks that `pid` launched."""
    ticks = []
    for child in children_of(pid):
        try:
            name, rest = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)
            fields = rest.split()
            if "am-run-rank" in name:  # excludes am-run's other child process, which guards the ranks
                ticks.append(int(fields[11]) + int(fields[12]))
        except OSError:
            pass
    return statistics.mean(ticks) / os.sysconf("SC_CLK_TCK") if ticks else 0.0


def peak_of_loaded(build):
    job = subprocess.Popen([build / "libexec/automesh/am-run-rank", "--version"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(job.pid, 0)
    job.returncode = status
    return usage.ru_maxrss * 1024


class PeakOfChildren(threading.Thread):
    """Samples the largest resident set of any child process of `pid`."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.bytes, self.over = pid, 0, threading.Event()

    def run(self):
        while not self.over.wait(0.1):
            self.bytes = max([self.bytes, *map(resident_peak, children_of(self.pid))])


def run_ours(build, shape, steps, strategy, mesh="", replicas=2, shared=True, config=model_config):
    """Runs a job with am-run and returns its figures. `shared` selects collectives through shared
    memory instead of Gloo."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(config(shape)))
        plan = Path(folder, "plan.toml")
        plan.write_text(plan_text(shape, folder, steps, strategy, mesh, replicas))
        env = dict(os.environ, OMP_NUM_THREADS="1", AM_SHARED_MEMORY="1" if shared else "0")
        begin, first, said, cpu = time.perf_counter(), {}, [], []
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
            if line.startswith("step "):
                cpu.append(processor_seconds(job.pid))
        if job.wait() != 0:
            sys.exit("am-run failed:\n" + "".join(said))
        peak.over.set()
        lines = Path(folder, "run", "metrics.jsonl").read_text().splitlines()
        times = [json.loads(line)["step_seconds"] for line in lines]
        loaded = peak_of_loaded(build)
        return figures(shape, replicas, times, cpu, peak.bytes, loaded, first["weights"], first["step"])


# ---- both ------------------------------------------------------------------------------------------------

# A program that only computes, and ends when its parent process ends for any reason.
BUSY_LOOP = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(1000000):
        pass
"""


@contextlib.contextmanager
def busy_programs(count):
    """Runs `count` programs that only compute, until the `with` block ends."""
    programs = [subprocess.Popen([sys.executable, "-S", "-c", BUSY_LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
        for program in programs:
            program.wait()


def figures(shape, replicas, times, cpu, peak, loaded, launch, first):
    tokens = replicas * shape["batch"] * shape["seq"]
    return {
        "speed": tokens / statistics.median(times[3:]),
        "cpu": (cpu[-2] - cpu[2]) / (len(cpu) - 4),  # without the last sample: am-run may be exiting
        "peak": peak / 2**20,
        "of it": (peak - loaded) / 2**20,
        "launch": launch,
        "1st step": first,
    }


FORMS = {
    "speed": "{:8.0f}",
    "cpu": "{:6.3f} s",
    "peak": "{:4.0f} MiB",
    "of it": "{:4.0f} MiB",
    "launch": "{:5.2f} s",
    "1st step": "{:6.2f} s",
}


def shard_by_layer(model):
    """Applies PyTorch's FSDP2 on two CPU ranks: one unit per layer, and one unit for all other
    parameters."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def faster(found, names):
    """Returns the name of the fastest of the jobs `names` that ran; None if none of them ran."""
    return max(
        (name for name in names if name in found),
        default=None,
        key=lambda name: statistics.median(each["speed"] for each in found[name]),
    )


def argument_parser(description):
    """Returns the parser of the options that all benchmarks of jobs have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=ROOT / "build", type=Path)
    parser.add_argument("--shape", choices=sorted(SHAPES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--only", nargs="+", metavar="JOB", help="run only these jobs (names of rows)")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="number of busy programs beside every job")
    return parser


def run(description, kinds, peer_rank, compare_shape):
    """Runs a benchmark that compares am-run with several kinds of PyTorch jobs. peer_rank(kind,
    shape, steps) runs one rank of a PyTorch job. compare_shape(build, name, options) runs all jobs
    for one of SHAPES and prints their figures."""
    parser = argument_parser(description)
    parser.add_argument("--rank-of", choices=sorted(kinds), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_of:
        return peer_rank(options.rank_of, SHAPES[options.shape], options.steps)
    compare_shapes(compare_shape, options)


def compare_shapes(compare_shape, options):
    for name in [options.shape] if options.shape else sorted(SHAPES):
        compare_shape(options.build.resolve(), name, options)


def compare(title, jobs, peer_of, options):
    """Runs every job once in each round, so that a slow phase of the machine affects all jobs.
    Prints each job's median figures over the rounds and, if the job has a peer, the median ratios
    to the peer's figures. `jobs` maps names to functions that run a job and return its figures.
    `peer_of` maps the name of a job to that of its peer. It may also be a function that computes
    this map from all figures. `options` are those of argument_parser."""
    jobs = {job: run for job, run in jobs.items() if not options.only or job in options.only}
    found = {job: [] for job in jobs}
    for _ in range(options.rounds):
        for job, run in jobs.items():
            with busy_programs(options.busy):
                found[job].append(run())
    if callable(peer_of):
        peer_of = peer_of(found)
    width = max(map(len, jobs))
    print(title + (f", beside {options.busy} busy programs" if options.busy else ""))
    print(f"{'':{width}s} {'tokens/s':>8s} {'cpu':>8s} {'peak':>8s} {'of it':>8s} {'launch':>7s} {'1st step':>8s}   ratios to PyTorch's")
    for job, results in found.items():
        line = f"{job:{width}s}"
        ratios = "  "
        for key, form in FORMS.items():
            line += " " + form.format(statistics.median(r[key] for r in results))
            if peer_of.get(job) in found:
                pairs = zip(results, found[peer_of[job]])
                ratios += f" {statistics.median(r[key] / p[key] for r, p in pairs):5.2f}"
        print(line + (f"{ratios}  {peer_of[job]}" if peer_of.get(job) in found else ""), flush=True)
