#!/usr/bin/env bash
# How long am-plan takes to start and answer: each command's best and median of 30 whole processes.
# The aim is under 20 ms. `true` is the floor that starting any process sets.
set -euo pipefail
cd "$(dirname "$0")/../.."

plan=${1:-plans/llama-3.1-8b-8gpu.toml}
python3 - "$plan" <<'PY'
import statistics, subprocess, sys, time

plan = sys.argv[1]
commands = [["true"]] + [["build/bin/am-plan", c, plan] for c in ("check", "show", "shards", "memory")]
for command in commands:
    times = []
    for _ in range(30):
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        times.append((time.perf_counter() - start) * 1e3)
    print(f"{' '.join(command):55s} best {min(times):6.1f} ms  median {statistics.median(times):6.1f} ms")
PY
