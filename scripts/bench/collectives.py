#!/usr/bin/env python3
"""Collectives and messages over Gloo's loopback and through shared memory (lib/decisions/0008).

  scripts/bench/collectives.py [BUILD]     (default: build; needs its target time_collectives)

Jobs of 2 and 4 ranks of one thread; of 2 also a message to the other rank and one back. Both ways
are timed in turn in one job, and the best times printed with their ratio; absolute times depend on the
machine.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_ranks(command, size):
    """So many ranks of one thread; what rank 0 printed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = dict(os.environ, OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    common.update(WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size), GLOO_SOCKET_IFNAME="lo")
    ranks = [
        subprocess.Popen(command, env={**common, "RANK": str(r), "LOCAL_RANK": str(r)}, stdout=subprocess.PIPE, text=True)
        for r in range(size)
    ]
    said = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"a rank failed: {command}")
    return said[0]


if __name__ == "__main__":
    build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    for size in (2, 4):
        print(run_ranks([build / "bin/time_collectives"], size), end="", flush=True)
