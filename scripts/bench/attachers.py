#!/usr/bin/env python3
"""Measures what attached am-repl clients cost a job: no loss may change, and steps must hardly take longer.

  scripts/bench/attachers.py [BUILD] [--clients N] [--commands N] [--steps N] [--rounds N]   (default: build, 20, 10000, 200, 4)

First, N clients send commands to the quickstart's job at the same time, until all commands are answered. Every loss and
gradient norm must equal, bit by bit, those of a job without clients, and no step may be missing. Then three kinds of jobs run
in turn: jobs to which no client can attach (--no-attach, "closed"), jobs to which no client attaches ("nobody"), and jobs to
which all clients are attached but send nothing ("N idle"). Prints the ratios of their median step times for each round.

The aims: no step differs; idle clients cost less than 1 % of a step. Exit status 1 if a step differs or a command fails.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from job_client import Talker  # noqa: E402

COMMANDS = ["status", "norms model.norm.weight", "ls *norm*", "print lm_head.weight[0:2, :4]", "nan *q_proj*", "mesh",
            "stats model.layers.0", "checksum model.norm.weight", "ls nothing", "unshard model.norm.weight",
            "grad model.norm.weight", "optim model.norm.weight", "grad model.norm.weight --of '1 2 3'"]
FAILING = {"ls nothing"}


def start(build, folder, name, steps, *arguments):
    """Starts a job and waits until it has written metrics or has ended. Returns its process and its run folder."""
    run = folder / name
    job = subprocess.Popen(
        [build / "bin" / "am-run", ROOT / "plans" / "quickstart.toml", "--run-dir", run, "--set", f"train.max_steps={steps}",
         "--set", "train.seq_len=32", "--set", "scheduler.name=constant",
         "--set", "scheduler.warmup_steps=0", "--set", "checkpoint.every=1000000", "--set", "metrics.every=1000000", *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"})
    while job.poll() is None and not (run / "metrics.jsonl").exists():
        time.sleep(0.02)
    return job, run


def steps_of(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line for line in lines if "loss" in line}


def end(job, stop=False):
    if stop:
        job.terminate()
    _, errors = job.communicate(timeout=900)
    if job.returncode != 0:
        sys.exit(f"a job failed:\n{errors.decode()}")


def many_commands(build, folder, clients, commands):
    job, run = start(build, folder, "visited", 1000000)
    failed, share = [], commands // clients

    def talk(place):
        with Talker(run, seconds=120) as client:
            for i in range(share):
                command = COMMANDS[(i + place) % len(COMMANDS)]
                client.send(id=i + 1, input=command)
                reply = client.reply(i + 1)
                if ("error" in reply) != (command in FAILING):
                    failed.append((command, reply))

    threads = [threading.Thread(target=talk, args=(place,)) for place in range(clients)]
    begun = time.monotonic()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    seconds = time.monotonic() - begun
    end(job, stop=True)
    visited = steps_of(run)
    last = max(visited)
    job, run = start(build, folder, "alone", last)
    end(job)
    alone = steps_of(run)
    same = sorted(visited) == list(range(1, last + 1)) == sorted(alone) and all(
        visited[step][key] == alone[step][key] for step in visited for key in ("loss", "grad_norm"))
    print(f"{clients} clients, {share * clients} commands in {seconds:.1f} s and {last} steps, {len(failed)} answered wrongly; "
          f"losses and gradient norms {'are' if same else 'are NOT'} those of a job that nobody visited", flush=True)
    for command, reply in failed[:3]:
        print(f"  {command}: {reply}")
    return same and not failed


def median_step(build, folder, name, steps, clients, *arguments):
    job, run = start(build, folder, name, steps, *arguments)
    with contextlib.ExitStack() as attached:
        for _ in range(clients):
            attached.enter_context(Talker(run))
        end(job)
    return statistics.median(line["step_seconds"] for step, line in steps_of(run).items() if step > 20)


def idle_clients(build, folder, clients, steps, rounds):
    ratios = {("nobody", "closed"): [], (f"{clients} idle", "closed"): [], (f"{clients} idle", "nobody"): []}
    for place in range(rounds):
        kinds = [("closed", 0, ("--no-attach",)), ("nobody", 0, ()), (f"{clients} idle", clients, ())]
        found = {}
        for at in range(len(kinds)):  # each round begins with another kind than the round before
            kind, count, arguments = kinds[(place + at) % len(kinds)]
            found[kind] = median_step(build, folder, f"{place} {kind}", steps, count, *arguments)
        for (kind, other), all_ratios in ratios.items():
            all_ratios.append(found[kind] / found[other])
    for (kind, other), all_ratios in ratios.items():
        shown = ", ".join(f"{each:.3f}" for each in all_ratios)
        print(f"a step of `{kind}` over one of `{other}`: {statistics.median(all_ratios):.3f}   ({shown})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build", type=Path)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--commands", type=int, default=10000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    build = options.build.resolve()
    with tempfile.TemporaryDirectory() as folder:
        good = many_commands(build, Path(folder), options.clients, options.commands)
        if options.rounds:
            idle_clients(build, Path(folder), options.clients, options.steps, options.rounds)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
