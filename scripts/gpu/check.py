"""The runner of scripts/gpu_check: finds the programs, runs each step in a separate process, collects the result rows
of the steps and prints the table of all rows."""

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import steps

ROOT = Path(__file__).resolve().parents[2]


class Failed(Exception):
    """A failed command of a step. The text names the command and the reason."""


class Check:
    """The environment of a step: the programs, a folder for files, and functions that write the step's result rows."""

    def __init__(self, options, rows_file, folder):
        self.dry = options.dry
        self.rows_file = rows_file
        self.folder = folder
        self.bin = Path(options.bin)
        self.backend = "gloo" if self.dry else "nccl"
        self.staged = "gloo" if self.dry else "cuda:gloo"
        self.nccl = Path(options.nccl) if options.nccl else None
        self.env = dict(os.environ)
        if options.libraries:
            self.env["LD_LIBRARY_PATH"] = options.libraries
        self.env.setdefault("OMP_NUM_THREADS", "1" if self.dry else "4")
        if self.dry:
            self.env["CUDA_VISIBLE_DEVICES"] = ""

    def row(self, name, value, limit="", ok=None):
        """Writes a row of the result table. `limit` describes the expected value. `ok` is True, False, or None for a
        figure without a bound."""
        with open(self.rows_file, "a") as stream:
            stream.write(json.dumps({"name": name, "value": value, "limit": limit, "ok": ok}) + "\n")

    def gate(self, name, value, limit, most=None, least=None):
        """Writes a row with a number that must be at most `most`, or at least `least`; NaN always fails."""
        ok = value <= most if most is not None else value >= least
        self.row(name, f"{value:.4g}", limit or (f"<= {most:g}" if most is not None else f">= {least:g}"), bool(ok))

    def attempt(self, name, body, *arguments, **named):
        """Runs a part of a step, and returns its result. If the part fails, writes a row with the error and returns
        None; the other parts still run."""
        try:
            return body(*arguments, **named)
        except Exception as error:  # any error: the other parts continue
            self.row(name, str(error)[-600:], "runs", False)
            return None

    def all_of(self, parts, workers=4):
        """Runs the parts (name, function, arguments..) with attempt(), in `workers` threads; with --dry, in one."""
        with ThreadPoolExecutor(1 if self.dry else workers) as pool:
            for done in [pool.submit(self.attempt, *part) for part in parts]:
                done.result()

    def command(self, *words, timeout=120, env=None, status=0, cwd=None):
        """Runs a command, and returns the finished process. Names of automesh's programs stand for the programs in
        self.bin. Raises Failed if the exit status is not `status`; None accepts every exit status."""
        words = [str(word) for word in words]
        if (self.bin / words[0]).exists():
            words[0] = str(self.bin / words[0])
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=timeout, cwd=cwd or self.folder, env={**self.env, **(env or {})}
        )
        if status is not None and done.returncode != status:
            raise Failed(f"{' '.join(words)}: status {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}")
        return done

    def json_of(self, *words, **options):
        return json.loads(self.command(*words, "--json", **options).stdout)

    def write(self, name, text):
        file = self.folder / name
        file.write_text(text)
        return file

    def train(self, name, plan, *arguments, **options):
        """Trains a plan, given as text, to its end in the run folder `name`. Returns the metrics of the steps."""
        file = self.write(f"{name}.toml", plan)
        self.command("am-run", file, "--run-dir", self.folder / name, *arguments, **options)
        return self.metrics(name)

    def metrics(self, name):
        lines = (self.folder / name / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


# ---- programs ----------------------------------------------------------------------------------------------------------------


def torch_libraries():
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("gpu_check: error: this Python has no PyTorch; start it with one that has PyTorch 2.11 for CUDA")
    return Path(list(spec.submodule_search_locations)[0]) / "lib"


def find_programs(options):
    """Sets options.bin, .libraries and .nccl: from a build, or from the pack of gpu_pack, which is unpacked first."""
    options.libraries, options.nccl = "", ""
    if options.build or options.dry:
        options.bin = str((options.build or Path(os.environ.get("AM_BUILD_DIR", ROOT / "build"))).resolve() / "bin")
        return
    archive = options.pack / "automesh.tar.xz"
    if not archive.exists():
        sys.exit(f"gpu_check: error: {archive} is not there; scripts/gpu_pack makes it, or give --build DIR")
    unpacked = options.pack / "unpacked"
    if not unpacked.exists():
        partial = options.pack / "unpacked.partial"
        shutil.rmtree(partial, ignore_errors=True)
        with tarfile.open(archive) as stream:
            stream.extractall(partial, filter="data")
        partial.rename(unpacked)
    options.bin = str((unpacked / "bin").resolve())
    options.libraries = f"{(unpacked / 'lib').resolve()}:{torch_libraries()}"
    nccl = unpacked / "nccl" / "libnccl.so.2"
    options.nccl = str(nccl.resolve()) if nccl.exists() else ""


# ---- steps -------------------------------------------------------------------------------------------------------------------


def end_group(process):
    """Ends a step and all processes that it started: first with SIGTERM, so that launchers end their
    ranks, then with SIGKILL."""
    for what, seconds in ((signal.SIGTERM, 3), (signal.SIGKILL, 3)):
        try:
            os.killpg(process.pid, what)
            process.wait(seconds)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def run_step(step, options, seconds):
    """Runs a step in a separate process. Returns the step's result, which becomes a line of result.jsonl."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"gpu-check-{step.name}-") as folder:
        rows_file = Path(folder) / "rows.jsonl"
        rows_file.touch()
        log = options.out / f"{step.name}.log"
        words = [sys.executable, "-B", ROOT / "scripts" / "gpu_check", "--inside", step.name, rows_file]
        words += ["--bin", options.bin, "--libraries", options.libraries, "--nccl", options.nccl]
        words += ["--dry"] if options.dry else []
        problem = ""
        with open(log, "w") as stream:
            process = subprocess.Popen(
                [str(word) for word in words], stdout=stream, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                status = process.wait(seconds)
                if status:
                    problem = f"status {status}: {log.read_text().strip()[-400:]}"
            except subprocess.TimeoutExpired:
                problem = f"did not end within {seconds:.0f} s"
            end_group(process)
        rows = [json.loads(line) for line in rows_file.read_text().splitlines()]
    if problem:
        rows.append({"name": "the step itself", "value": problem, "limit": "ends", "ok": False})
    good = not any(row["ok"] is False for row in rows)
    return {"step": step.name, "ok": good, "seconds": round(time.monotonic() - start, 1), "rows": rows}


def run_inside(options):
    name, rows_file = options.inside
    step = steps.BY_NAME[name]
    folder = Path(rows_file).parent / "work"
    folder.mkdir()
    check = Check(options, rows_file, folder)
    step.body(check)
    return 0


def print_table(results):
    marks = {True: "ok", False: "FAILED", None: ""}
    print(f"{'step':12} {'row':46} {'value':>22}  {'limit':18} ")
    for result in results:
        for number, row in enumerate(result["rows"]):
            head = result["step"] if number == 0 else ""
            value = " ".join(str(row["value"]).split())
            short = value if len(value) <= 22 else ""
            print(f"{head:12} {row['name'][:46]:46} {short:>22}  {row['limit'][:18]:18} {marks[row['ok']]}")
            if not short and value:
                print(f"{'':12}   {value[-300:]}")
        print(f"{'' if result['rows'] else result['step']:12} {result['seconds']} s")
    failed = [result["step"] for result in results if not result["ok"]]
    print(f"{len(results)} steps, {len(failed)} with failures{': ' if failed else ''}{', '.join(failed)}")


def main(text):
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", metavar="STEP", help="names or numbers of --list (default: all)")
    parser.add_argument("--list", action="store_true", help="print the steps and end")
    parser.add_argument("--dry", action="store_true", help="on CPUs, with tiny sizes")
    parser.add_argument("--pack", type=Path, default=ROOT / ".gpu", help="the folder that gpu_pack made (default: .gpu)")
    parser.add_argument("--build", type=Path, help="a build folder of this machine, in place of a pack")
    parser.add_argument("--out", type=Path, default=ROOT / ".gpu" / "out", help="where results go (default: .gpu/out)")
    parser.add_argument("--seconds", type=float, default=540, help="time limit of all steps together (default: 540)")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    for hidden in ("--bin", "--libraries", "--nccl"):
        parser.add_argument(hidden, default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return run_inside(options)
    if options.list:
        for number, step in enumerate(steps.STEPS):
            print(f"{number}  {step.name:12} {step.seconds:4} s  {step.text}")
        return 0
    chosen = []
    for word in options.steps or [step.name for step in steps.STEPS]:
        step = steps.STEPS[int(word)] if word.isdigit() and int(word) < len(steps.STEPS) else steps.BY_NAME.get(word)
        if step is None:
            parser.error(f"no step {word!r}; there are {', '.join(steps.BY_NAME)}")
        chosen.append(step)
    find_programs(options)
    options.out.mkdir(parents=True, exist_ok=True)
    results, end = [], time.monotonic() + options.seconds
    with open(options.out / "result.jsonl", "a") as stream:
        for step in chosen:
            left = end - time.monotonic()
            if left < 5:
                rows = [{"name": "the step itself", "value": "no time was left", "limit": "runs", "ok": False}]
                results.append({"step": step.name, "ok": False, "seconds": 0, "rows": rows})
            else:
                results.append(run_step(step, options, min(step.seconds, left)))
            stream.write(json.dumps(results[-1]) + "\n")
            stream.flush()
            print(f"{step.name}: {'ok' if results[-1]['ok'] else 'FAILED'}, {results[-1]['seconds']} s", file=sys.stderr)
    print_table(results)
    return 0 if all(result["ok"] for result in results) else 1
