#!/usr/bin/env python3
"""Compares collectives and messages over Gloo's loopback with those through shared memory (lib/decisions/0008).

  scripts/bench/collectives.py [BUILD] [--busy N]     (default: build; needs its target time_collectives)

Runs jobs of 2 and 4 ranks with one thread per rank. A job of 2 ranks also sends a message to the other rank
and one back. Each job measures Gloo and shared memory alternately. Prints the best times and their ratio;
absolute times depend on the machine. With --busy N, N programs that only compute run at the same time, and
mean times are printed.
"""

import argparse
import os
import socket
import subprocess
import sys
from pathlib import Path

from jobs import ROOT, busy_programs


def run_ranks(command, size, busy=0):
    """Runs `size` ranks of one thread beside `busy` busy programs; returns the output of rank 0."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = dict(os.environ, OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    common.update(WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size), GLOO_SOCKET_IFNAME="lo")
    with busy_programs(busy):
        ranks = [
            subprocess.Popen(
                command, env={**common, "RANK": str(r), "LOCAL_RANK": str(r)}, stdout=subprocess.PIPE, text=True)
            for r in range(size)
        ]
        said = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"a rank failed: {command}")
    return said[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=ROOT / "build", type=Path)
    parser.add_argument("--busy", type=int, default=0, metavar="N")
    options = parser.parse_args()
    command = [options.build.resolve() / "bin/time_collectives", *(["--mean"] if options.busy else [])]
    for size in (2, 4):
        print(run_ranks(command, size, options.busy), end="", flush=True)


if __name__ == "__main__":
    main()
