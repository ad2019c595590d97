#!/usr/bin/env bash
# Measures am-plan's commands, from the start to the end of the process. Prints the best and the
# median time of 30 runs of each command (5 runs of `search`), and the largest peak memory of any
# process. The aims: `check` under 10 ms, `memory` and `cost` under 20 ms, `search` under 1 s and
# 500 MiB. The command `true` is measured too: its time is that of starting a process.
set -euo pipefail
cd "$(dirname "$0")/../.."

plan=${1:-plans/llama-3.1-8b-8gpu.toml}
python3 - "$plan" <<'PY'
import resource, statistics, subprocess, sys, time

plan = sys.argv[1]
commands = [["true"]] + [["build/bin/am-plan", c, plan] for c in ("check", "show", "shards", "memory", "cost")]
commands.append("build/bin/am-plan search --model plans/models/llama-3.1-405b --gpus 16384 --gpu h100-sxm --seq-len 8192".split())
for command in commands:
    times = []
    for _ in range(5 if "search" in command else 30):
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        times.append((time.perf_counter() - start) * 1e3)
    print(f"{' '.join(command)[:55]:55s} best {min(times):6.1f} ms  median {statistics.median(times):6.1f} ms")
print(f"largest process: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MiB")
PY
