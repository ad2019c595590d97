"""The steps of scripts/gpu_check, in order. A step writes its result rows through `check` (class Check in check.py)."""

import contextlib
import json
import os
import pickle
import re
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import plans  # adds the tests' modules to sys.path
import curve_support
import kernel_times
from plans import SHAPES, TINY, loop_plan, losses_of, shape, sized_plan, worst

HERE = Path(__file__).resolve().parent
FAMILIES = ("llama", "qwen3", "gemma2", "mixtral", "deepseek_v3", "gpt2")
TIME_FOR_THE_END = 10  # the most seconds between a failure and the end of its job


@dataclass
class Step:
    name: str
    seconds: int
    text: str
    body: Callable


# ---- the machine ---------------------------------------------------------------------------------------------------------------


def machine(check):
    version = check.command("am-run", "--version").stdout
    check.row("am-run --version", ", ".join(version.split("\n")), "starts", True)
    if check.dry:
        return
    gpu = check.command("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader").stdout
    check.row("GPU, driver, memory", gpu.strip())
    mps = check.command("sh", "-c", "command -v nvidia-cuda-mps-control || echo none").stdout.strip()
    check.row("nvidia-cuda-mps-control", mps)
    done = check.command(sys.executable, HERE / "peer.py", "ceilings", timeout=60)
    for name, value in json.loads(done.stdout).items():
        check.row(name, value)


# ---- operators and communicators -----------------------------------------------------------------------------------------------


def test_program(check, name, env=None):
    """Runs a Catch2 program, and checks that it passed. A skipped program counts as failed, except with --dry."""
    done = check.command(name, status=None, timeout=300, env=env)
    (check.folder.parent / f"{name}.txt").write_text(done.stdout)
    print(done.stdout)
    if done.returncode == 77:
        check.row(name, f"skipped: {(done.stdout + done.stderr).strip()[-200:]}", "passes", True if check.dry else False)
        return
    last = done.stdout.strip().splitlines()[-1:] or [done.stderr.strip()[-300:]]
    check.row(name, last[0], "passes", done.returncode == 0)


def operators(check):
    check.attempt("am_cuda_tests", test_program, check, "am_cuda_tests")
    device = {"AM_OPERATORS_DEVICE": "cpu"} if check.dry else {}
    check.attempt("am_gpu_tests", test_program, check, "am_gpu_tests", device)


# ---- curves --------------------------------------------------------------------------------------------------------------------


def family(check, name):
    exact = losses_of(check.train(f"{name}-float32", curve_support.family_plan(name, check.backend)))
    check.gate(f"{name}, float32", worst(exact, curve_support.family_losses(name)), "1e-4 of PyTorch", most=1e-4)
    host = losses_of(check.train(f"{name}-host", plans.rounded_family_plan(name, "gloo")))
    device = losses_of(check.train(f"{name}-bfloat16", plans.rounded_family_plan(name, check.backend)))
    check.gate(f"{name}, bfloat16", worst(device, host), "2e-2 of a host", most=2e-2)


def moved(check, name, first, second):
    """Trains ten steps on one kind of device, then resumes on the other kind and trains ten more."""
    check.train(name, loop_plan(first, steps=10))
    records = check.train(name, loop_plan(second, steps=20))
    check.gate(name, worst(losses_of(records), curve_support.loop_losses()), "1e-4 of PyTorch", most=1e-4)


def curves(check):
    parts = [(name, family, check, name) for name in FAMILIES]
    parts.append(("GPU to host", moved, check, "GPU to host", check.backend, "gloo"))
    parts.append(("host to GPU", moved, check, "host to GPU", "gloo", check.backend))
    check.all_of(parts)


# ---- am-repl -------------------------------------------------------------------------------------------------------------------


def look(check):
    """Compares am-repl's results on a GPU and on the host, and the checkpoints of two jobs that trained on them."""
    for name, backend in (("on-gpu", check.backend), ("on-host", "gloo")):
        check.train(name, loop_plan(backend, steps=5))
    commands = "stats *; logprob '3 + 4 = 7'"
    answers = [
        check.json_of("am-repl", check.folder / f"{name}.toml", "--tokenizer", "bytes", "-c", f"{commands}")["results"]
        for name in ("on-gpu", "on-host")
    ]
    logprobs = [answer[1]["logprobs"][1:] for answer in answers]
    check.gate("logprob on a GPU and on a host", max(abs(a - b) for a, b in zip(*logprobs)), "1e-4", most=1e-4)
    norms = [[row["norm"] for row in answer[0]["stats"]] for answer in answers]
    check.gate("stats on a GPU and on a host", max(abs(a - b) / max(b, 1e-9) for a, b in zip(*norms)), "1e-5", most=1e-5)
    done = check.json_of("am-repl", check.folder / "on-gpu", "-c", f"diff {check.folder / 'on-host'}")["results"][0]
    largest = max(row.get("max_abs", 0.0) for row in done["parameters"])
    check.gate("diff of the two checkpoints after 5 steps", largest, "5e-3", most=5e-3)


def step_of(line):
    """Returns the step that a line of am-run's log reports; 0 if the line reports no step."""
    found = re.match(r"step\s+(\d+)/", line)
    return int(found[1]) if found else 0


@contextlib.contextmanager
def running(check, name, plan, *arguments, steps, stdout=subprocess.DEVNULL, env=None):
    """Starts a job in the background and waits until the job has finished `steps` steps. Raises RuntimeError if the job
    ends before, or if 40 s pass. Ends the job when the `with` block ends."""
    words = [check.bin / "am-run", check.write(f"{name}.toml", plan), "--run-dir", check.folder / name, *arguments]
    with open(check.folder / f"{name}.log", "w") as log:
        job = subprocess.Popen([str(word) for word in words], cwd=check.folder, env={**check.env, **(env or {})}, stdout=stdout, stderr=log, text=True)
        try:
            end = time.monotonic() + 40
            while job.poll() is None and time.monotonic() < end:
                if max(map(step_of, (check.folder / f"{name}.log").read_text().splitlines()), default=0) >= steps:
                    break
                time.sleep(0.05)
            else:
                raise RuntimeError(f"{name} came to no step {steps}: {(check.folder / f'{name}.log').read_text()[-400:]}")
            yield job
        finally:
            if job.poll() is None:
                job.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    job.wait(10)
            if job.poll() is None:
                job.kill()
                job.wait()


def checkpoint_files(folder):
    save = json.loads((folder / "checkpoint.json").read_text())["save"].encode()
    return {file.name: file.read_bytes().replace(save, b"SAVE") for file in sorted(folder.glob("__*.distcp"))}


def attach(check):
    """Checks that a job that am-repl inspects has, bit by bit, the losses and checkpoint of a job without am-repl."""
    keys = "deterministic = true\n"
    plan = loop_plan(check.backend, steps=100000).replace("[train]\n", f"[train]\n{keys}")
    with running(check, "seen", plan, steps=3) as job:
        for command in ("stats *", "pause; step 5; grad *norm*; unshard model.layers.0; memory; reshard; continue", "mesh"):
            check.command("am-repl", check.folder / "seen", "-c", command)
        job.send_signal(signal.SIGTERM)
        job.wait(30)
    seen = check.metrics("seen")
    count = len(seen)
    quiet = check.train("quiet", plan, "--steps", count, "--no-attach")
    same = losses_of(seen) == losses_of(quiet)
    check.row(f"losses of {count} steps, attached and not", "equal" if same else "differ", "to the bit", same)
    files = [checkpoint_files(check.folder / run / "checkpoints" / f"step-{count}") for run in ("seen", "quiet")]
    check.row("their checkpoints", "equal" if files[0] == files[1] else "differ", "to the bit", files[0] == files[1])


def inspect(check):
    check.attempt("am-repl at rest", look, check)
    check.attempt("am-repl in a job", attach, check)


# ---- several ranks -------------------------------------------------------------------------------------------------------------

def follow(check, name, plan, label, wanted, options, env, limit="1e-4 of PyTorch"):
    run = f"{label}-{name}".replace(" ", "-").replace(",", "")
    records = check.train(run, plan, *options, env=env, timeout=60)
    check.gate(name, worst(losses_of(records), wanted), limit, most=1e-4)


def layout(check, name, backend, label, options=(), env=None):
    follow(check, name, curve_support.row_plan(name, backend), label, curve_support.loop_losses(), options, env)


def expert_layout(check, backend, label, options=(), env=None):
    plan = curve_support.family_plan("mixtral", backend, "world_size = 2\nep_size = 2")
    follow(check, "ep, mixtral", plan, label, curve_support.family_losses("mixtral"), options, env)


def zero_bubble(check, backend, label, options=(), env=None):
    wanted = losses_of(check.train(f"{label}-deep", curve_support.one_rank_plan()))
    plan = curve_support.zero_bubble_plan(backend)
    follow(check, "pp, zero bubble", plan, label, wanted, options, env, "1e-4 of one rank")


def gloo(check):
    parts = [(name, layout, check, name, check.staged, "gloo") for name in curve_support.ROWS]
    parts.append(("ep, mixtral", expert_layout, check, check.staged, "gloo"))
    parts.append(("pp, zero bubble", zero_bubble, check, check.staged, "gloo"))
    check.all_of(parts, workers=3)


# NCCL's transports between processes of one GPU, fastest first.
TRANSPORTS = {
    "peer to peer": {},
    "shared memory": {"NCCL_P2P_DISABLE": "1"},
    "sockets": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo"},
}


class Mps:
    """Runs a private daemon of NVIDIA's multi-process service (MPS) during a `with` block, if MPS is installed."""

    def __init__(self, check):
        self.check = check
        self.env = {}
        self.program = check.command("sh", "-c", "command -v nvidia-cuda-mps-control || true").stdout.strip()

    def __enter__(self):
        if self.program:
            folder = self.check.folder / "mps"
            folder.mkdir()
            self.env = {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
            done = self.check.command(self.program, "-d", env=self.env, status=None)
            self.check.row("MPS", "private daemon" if done.returncode == 0 else f"status {done.returncode}")
            if done.returncode:
                self.env = {}
        else:
            self.check.row("MPS", "not installed: ranks take turns")
        return self

    def __exit__(self, *_):
        if self.env:
            subprocess.run([self.program], input="quit\n", text=True, env={**self.check.env, **self.env}, timeout=20, check=False)


def nccl_transport(check, env):
    """Returns the environment variables with which two ranks on the GPU train over NCCL: `env` and those of the first
    transport that works. Returns None if no transport works."""
    for name, variables in TRANSPORTS.items():
        try:
            tried = {**env, **variables}
            records = check.train(
                f"try-{name}".replace(" ", "-"), loop_plan("nccl", ranks=2, steps=2), "--ranks-per-gpu", 2, env=tried, timeout=25
            )
            check.row("two ranks over NCCL", f"{name}, {len(records)} steps", "train", True)
            return tried
        except Exception as error:  # the row shows NCCL's message
            check.row(f"two ranks over NCCL, {name}", str(error)[-400:])
    check.row("two ranks over NCCL", "no transport works", "train", False)
    return None


def nccl(check):
    if check.dry:
        check.row("two ranks over NCCL", "not on CPUs")
        return
    env = {"LD_PRELOAD": str(check.nccl)} if check.nccl else {}
    with Mps(check) as mps:
        env = nccl_transport(check, {**env, **mps.env})
        if env is None:
            return
        for name, (ranks, *_) in curve_support.ROWS.items():
            if ranks == 2:
                check.attempt(name, layout, check, name, "nccl", "nccl", ("--ranks-per-gpu", 2), env)
        for name, part in (("ep, mixtral", expert_layout), ("pp, zero bubble", zero_bubble)):
            check.attempt(name, part, check, "nccl", "nccl", ("--ranks-per-gpu", 2), env)


# ---- checkpoints ---------------------------------------------------------------------------------------------------------------


def saved_while_training(check):
    more = "[checkpoint]\nevery = 5\nasync = true\n"
    records = check.train("async", loop_plan(check.backend, more=more))
    check.gate("losses of a job that saves in the background", worst(losses_of(records), curve_support.loop_losses()), "1e-4", most=1e-4)


def killed(check):
    """Checks that a job whose rank was killed resumes from its last checkpoint with the same losses
    as an undisturbed job."""
    more = "[checkpoint]\nevery = 5\nkeep = 2\n"
    with running(check, "killed", loop_plan(check.backend, steps=100000, more=more), steps=8) as job:
        for rank in ranks_of(check.folder / "killed").values():
            os.kill(rank, signal.SIGKILL)
        job.wait(30)
    done = check.metrics("killed")[-1]["step"] + 10
    records = check.train("killed", loop_plan(check.backend, steps=done, more=more))
    check.row("goes on after kill -9", f"step {records[-1]['step']}", f"step {done}", records[-1]["step"] == done)
    wanted = check.train("whole", loop_plan(check.backend, steps=done))
    check.gate("its losses", worst(losses_of(records), losses_of(wanted)), "1e-4 of a whole job", most=1e-4)


def offloaded(check):
    keys = "offload_policy = { pin_memory = true }"
    records = check.train("offload", loop_plan(check.backend, keys=keys, steps=10))
    check.gate("losses with offload_policy", worst(losses_of(records), curve_support.loop_losses()[:10]), "1e-4 of PyTorch", most=1e-4)


def checkpoints(check):
    parts = [saved_while_training, killed, offloaded]
    check.all_of([(part.__name__, part, check) for part in parts])


def ranks_of(run):
    """Returns the process ids of a run's ranks, by rank."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(run).encode() not in (process / "cmdline").read_bytes():
                continue
            variables = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for variable in variables:
            if variable.startswith(b"RANK="):
                found[int(variable[5:])] = int(process.name)
    return found


# ---- memory --------------------------------------------------------------------------------------------------------------------

MEMORY_PLANS = {
    "0.3B": (shape(1024, 4096, 12, 16, 8, 32000, 2048), ""),
    "0.3B, full recomputation": (shape(1024, 4096, 12, 16, 8, 32000, 2048), 'activation_checkpointing = "full"'),
    "0.3B, offload": (shape(1024, 4096, 12, 16, 8, 32000, 2048), "offload_policy = { pin_memory = true }"),
}


def memory_of(check, number, name):
    size, keys = MEMORY_PLANS[name]
    plan = sized_plan(check, f"memory-{number}", TINY if check.dry else size, check.backend, steps=4, keys=keys)
    last = check.train(f"memory-{number}", plan)[-1]
    predicted = check.json_of("am-plan", "memory", check.folder / f"memory-{number}.toml")
    if check.dry:
        check.row(f"{name}: peak", f"{last['peak_memory_bytes'] / 2**20:.0f} MiB")
        return
    allocated, reserved = last["peak_memory_bytes"], last["peak_reserved_bytes"]
    check.row(f"{name}: allocated, predicted", f"{allocated / 2**20:.0f}, {predicted['peak_bytes'] / 2**20:.0f} MiB")
    check.row(f"{name}: reserved, predicted", f"{reserved / 2**20:.0f}, {predicted['reserved_bytes'] / 2**20:.0f} MiB")
    check.gate(f"{name}: allocated over am-plan's", abs(allocated / predicted["peak_bytes"] - 1), "5 %", most=0.05)
    check.gate(f"{name}: reserved over am-plan's", abs(reserved / predicted["reserved_bytes"] - 1), "15 %", most=0.15)


def memory_snapshot(check):
    """Records the allocations of one step (metrics.trace.memory), and counts the snapshot's files and events."""
    plan = sized_plan(check, "snapshot", TINY, check.backend, steps=3)
    trace = "metrics.trace={ start = 1, steps = 1, ranks = [0], memory = true }"
    check.train("snapshot", plan, "--set", trace)
    pictures = list((check.folder / "snapshot" / "traces").glob("*.memory.pickle"))
    if check.dry:
        check.row("snapshot of a step's memory", "not on CPUs")
        return
    recorded = sum(len(device) for picture in pictures for device in pickle.loads(picture.read_bytes())["device_traces"])
    check.row("snapshot of a step's memory", f"{recorded} events")
    check.gate("files of the snapshot", len(pictures), "", least=1)
    check.gate("events of the snapshot", recorded, "", least=1)


def memory(check):
    for number, name in enumerate(MEMORY_PLANS):
        check.attempt(name, memory_of, check, number, name)
    check.attempt("snapshot", memory_snapshot, check)


# ---- speed ---------------------------------------------------------------------------------------------------------------------

WARM_STEPS, TIMED_STEPS = 3, 8


def timed_job(check, name, plan):
    """Trains a plan; returns tokens per second of the median step, peak bytes, and seconds from the
    command to the end of step 1."""
    start = time.monotonic()
    with running(check, name, plan, steps=1, env={"OMP_NUM_THREADS": str(os.cpu_count())}) as job:
        first = time.monotonic() - start
        if job.wait(200):
            raise RuntimeError((check.folder / f"{name}.log").read_text()[-500:])
    records = check.metrics(name)
    print(name, f"first step after {first:.2f} s")
    print((check.folder / f"{name}.log").read_text()[-3000:], json.dumps(records[0]))
    for file in (check.folder / name).glob("*.json"):
        print(file.name, file.read_text()[:1500])
    rates = [record["tokens"] / record["step_seconds"] for record in records[WARM_STEPS:]]
    return {"tokens_per_second": statistics.median(rates), "peak_bytes": records[-1]["peak_memory_bytes"], "first_step_seconds": first}


def peer_job(check, size, env=None):
    words = [sys.executable, HERE / "peer.py", "train", json.dumps(size), WARM_STEPS, TIMED_STEPS]
    return json.loads(check.command(*words, timeout=150, env=env).stdout.splitlines()[-1])


def compare(check, name, size, least):
    steps = WARM_STEPS + TIMED_STEPS
    ours = timed_job(check, f"speed-{name}".replace(" ", "-").replace(",", ""), sized_plan(check, name, size, check.backend, steps))
    check.row(f"{name}: automesh", f"{ours['tokens_per_second']:.0f} tokens/s, {ours['peak_bytes'] / 2**30:.1f} GiB, first {ours['first_step_seconds']:.1f} s")
    if check.dry:
        return
    peer = peer_job(check, size)
    check.row(f"{name}: PyTorch, compiled", f"{peer['tokens_per_second']:.0f} tokens/s, {peer['peak_bytes'] / 2**30:.1f} GiB, first {peer['first_step_seconds']:.1f} s")
    check.gate(f"{name}: speed over PyTorch's", ours["tokens_per_second"] / peer["tokens_per_second"], "", least=least)
    check.gate(f"{name}: peak over PyTorch's", ours["peak_bytes"] / peer["peak_bytes"], "", most=1.0)
    check.gate(f"{name}: first step over PyTorch's", ours["first_step_seconds"] / peer["first_step_seconds"], "", most=0.25)


def speed(check):
    sizes = {"tiny": TINY} if check.dry else SHAPES
    for name, size in sizes.items():
        check.attempt(name, compare, check, name, size, 1.0 if "experts" in size else 0.85)


def recorded(check, name, body):
    """Records a job's kernels with CUPTI and prints the times of its last steps by kernel. `body(env)` runs the job and
    returns the seconds of a step."""
    place = check.folder / f"times-{name}".replace(" ", "-").replace(",", "")
    seconds = body({"CUDA_INJECTION64_PATH": str(check.bin.parent / "lib" / "kernel_times.so"), "AM_KERNEL_TIMES": str(place)})
    rows, gaps, busy = kernel_times.last_steps(place.parent.glob(f"{place.name}.*"), 3, seconds)
    print(f"{name}: {seconds * 1e3:.1f} ms a step\n{kernel_times.text(rows, gaps, busy)}\n")
    check.row(f"{name}: kernels", f"{sum(row[0] for row in rows):.1f} of {seconds * 1e3:.1f} ms, {sum(row[1] for row in rows):.0f}")


def kernels_of(check, name, size):
    def ours(env):
        run = f"kernels-{name}".replace(" ", "-").replace(",", "")
        plan = sized_plan(check, run, size, check.backend, WARM_STEPS + TIMED_STEPS)
        return statistics.median(record["step_seconds"] for record in check.train(run, plan, env=env)[WARM_STEPS:])

    recorded(check, f"{name}, automesh", ours)


def kernels_of_peer(check, name, size):
    recorded(check, f"{name}, PyTorch", lambda env: size["seq"] / peer_job(check, size, env)["tokens_per_second"])


def kernel_rates(check):
    """Shows the bytes that each kernel of the CUDA plugin reads and writes per second. With --dry, the kernels run on
    the host, where each thread of a kernel is a fiber."""
    program, device = ("am_kernel_tests", {"AM_OPERATORS_DEVICE": "cpu"}) if check.dry else ("am_gpu_tests", {})
    lines = check.command(program, "[kernel_rates]", env=device).stdout
    for name, rate in re.findall(r"^rate of (.+): (\S+) TB/s$", lines, re.MULTILINE):
        check.row(f"{name}: reads and writes", f"{rate} TB/s")


def kernels(check):
    check.attempt("rates of kernels", kernel_rates, check)
    if check.dry:
        check.row("kernels", "not on CPUs")
        return
    for part in (kernels_of, kernels_of_peer):
        for name, size in SHAPES.items():
            check.attempt(name, part, check, name, size)


def attention(check):
    """Compares attention's rates for windows, documents and blocks with its rate for a plain causal mask."""
    device = {"AM_OPERATORS_DEVICE": "cpu"} if check.dry else {}
    lines = check.command("am_gpu_tests", "[rates]", env=device).stdout
    rates = {name: float(rate) for name, rate in re.findall(r"^rate of (.+): (\S+) TFLOP/s$", lines, re.MULTILINE)}
    plain = rates.pop("causal")
    check.row("causal attention", f"{plain:.4g} TFLOP/s")
    for name, rate in rates.items():
        check.row(f"{name}", f"{rate:.4g} TFLOP/s")
        if not check.dry:
            check.gate(f"{name} over causal", rate / plain, "", least=0.6)


def syncs(check, micro_batches):
    """Returns the host synchronisations per step, counted by the warnings of PyTorch's sync debug mode."""
    counts = []
    for steps in (4, 8):
        name = f"syncs-{micro_batches}-{steps}"
        plan = sized_plan(check, name, TINY, check.backend, steps, micro_batches=micro_batches)
        check.train(name, plan, env={"AM_CUDA_SYNC_DEBUG": "warn"})
        logs = "".join(file.read_text() for file in sorted((check.folder / name / "logs").glob("rank-*")))
        print(logs)
        counts.append(logs.count("called a synchronizing CUDA operation"))
    return (counts[1] - counts[0]) / 4


def waits(check):
    """Counts host synchronisations per step, and measures steps during a background save and with offload."""
    most = 0 if check.dry else 1
    for micro_batches in (1, 4):
        check.gate(f"host waits a step, {micro_batches} micro-batches", syncs(check, micro_batches), f"<= {most}", most=most)
    size = TINY if check.dry else MEMORY_PLANS["0.3B"][0]
    steps = 12
    more = "every = 6\nasync = true\nkeep = 1\n"
    # Computing 16 micro-batches takes longer than copying 12 bytes per parameter to the host.
    micro_batches = 1 if check.dry else 16
    plan = sized_plan(check, "saving", size, check.backend, steps, micro_batches=micro_batches)
    plan = plan.replace("last = false\n", more)
    check.train("saving", plan)
    records = check.metrics("saving")[WARM_STEPS:]
    after = [record["step_seconds"] for record in records if record["step"] % 6 == 1]
    others = [record["step_seconds"] for record in records if record["step"] % 6 > 1]
    ratio = max(after) / statistics.median(others)
    if check.dry:
        check.row("a step during a save over the others", f"{ratio:.2f}")
    else:
        check.gate("a step during a save over the others", ratio, "", most=1.15)
    keys = "offload_policy = { pin_memory = true }"
    plan = sized_plan(check, "offloaded", size, check.backend, steps, keys, micro_batches=micro_batches)
    records = check.train("offloaded", plan)
    usual = statistics.median(others)
    seconds = statistics.median(record["step_seconds"] for record in records[WARM_STEPS:])
    check.row("a step with offload", f"{seconds:.3f} s, {usual:.3f} s without")
    print(json.dumps(records[-1]))


# ---- checking tools, and injected faults -------------------------------------------------------------------------------------------


def sanitizer(check):
    if check.dry:
        check.row("compute-sanitizer", "not on CPUs")
        return
    plan = check.write("memcheck.toml", loop_plan(check.backend, steps=1))
    words = ["compute-sanitizer", "--tool", "memcheck", "--target-processes", "all", check.bin / "am-run", plan]
    # Without PyTorch's caching allocator, every tensor has a separate allocation. memcheck then
    # detects each access beyond the end of a tensor.
    env = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTORCH_ALLOC_CONF": "expandable_segments:False"}
    done = check.command(*words, "--run-dir", check.folder / "memcheck", status=None, timeout=60, env=env)
    said = done.stdout + done.stderr
    print(said)
    counted = [line for line in said.splitlines() if "ERROR SUMMARY" in line]
    clean = bool(counted) and all("ERROR SUMMARY: 0 errors" in line for line in counted)
    check.row("memcheck of one step", counted[-1] if counted else said[-300:], "0 errors", clean)


def failing(check, name, plan, *arguments, words=(), steps=0, disturb=None):
    """Runs a job that must fail, and calls `disturb` after `steps` steps. The reported cause must contain `words`.
    After `disturb`, the job must end within TIME_FOR_THE_END."""
    run = name.replace(" ", "-")
    with open(check.folder / f"{run}.json", "w") as said:
        with running(check, run, plan, "--json", *arguments, steps=steps, stdout=said) as job:
            start = time.monotonic()
            if disturb:
                disturb(check.folder / run)
            status = job.wait(60)
            for file in sorted((check.folder / run / "logs").glob("rank-*")):
                print(file.name, file.read_text()[-6000:])
            seconds = time.monotonic() - start
    cause = json.loads((check.folder / f"{run}.json").read_text())["cause"]
    missing = [word for word in words if word not in json.dumps(cause)]
    check.row(f"{name}: cause", json.dumps(cause), f"has {', '.join(words)}", status == 1 and not missing)
    if disturb:
        check.gate(f"{name}: seconds to its end", seconds, "", most=TIME_FOR_THE_END)


def kill_rank_one(run):
    os.kill(ranks_of(run)[1], signal.SIGKILL)


def faults(check):
    pair = loop_plan(check.staged, ranks=2, steps=100000, more="[checkpoint]\nlast = false\n")
    check.attempt("kill -9", failing, check, "kill -9", pair, words=('"rank": 1', '"signal": 9'), steps=3, disturb=kill_rank_one)
    if check.dry:
        check.row("device assert, out of memory", "not on CPUs")
        return
    words = ("device-side assert", '"step": 3', "GPU 0")
    check.attempt("device assert", failing, check, "device assert", pair, "--fault", "unchecked_id", words=words)
    size = shape(4096, 14336, 40, 32, 8, 128256, 8192)
    # "; in " precedes the name of a unit, or of the optimizer.
    words = ("out of memory", "predicted", "reserved", "GPU 0", "; in ")
    check.attempt("out of memory", failing, check, "out of memory", sized_plan(check, "oom", size, "nccl", 3), "--force", words=words)


STEPS = [
    Step("machine", 40, "the GPU, versions, and rates of copies and of a matmul", machine),
    Step("operators", 90, "every operator and attention path against float64 on the host; NCCL's engine", operators),
    Step("curves", 90, "losses of six families against PyTorch's; checkpoints from a GPU to a host and back", curves),
    Step("inspect", 45, "am-repl at rest and in a job on the GPU", inspect),
    Step("gloo", 90, "2 and 4 ranks on the one GPU over cuda:gloo", gloo),
    Step("nccl", 90, "2 ranks on the one GPU over NCCL 2.30", nccl),
    Step("checkpoints", 45, "saving in the background, kill -9, offload", checkpoints),
    Step("memory", 60, "allocated and reserved bytes against am-plan's", memory),
    Step("speed", 240, "tokens a second, memory and launch against PyTorch compiled, in the same call", speed),
    Step("kernels", 150, "rates of the plugin's kernels; time of each kernel in a step, and in PyTorch's", kernels),
    Step("attention", 40, "rates of attention with windows, documents and blocks", attention),
    Step("waits", 60, "host synchronisations of a step; steps while a checkpoint is written", waits),
    Step("sanitizer", 60, "compute-sanitizer's memcheck of one step", sanitizer),
    Step("faults", 90, "a planted device assert, out of memory, kill -9", faults),
]
BY_NAME = {step.name: step for step in STEPS}
