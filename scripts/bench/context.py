#!/usr/bin/env python3
"""Compares attention of one causal sequence over two ranks with PyTorch's ring attention, on CPUs.

  scripts/bench/context.py [BUILD] [--length N] [--rounds N]     (default: build, 8192; needs its target time_attention)

Needs a Python with torch. The attention has eight heads of width 64, in float32, over one sequence. It is
compared with the ring attention behind torch.distributed.tensor.experimental.context_parallel, with head-tail
load balancing. This script passes the host's flash kernel to the ring, because PyTorch uses the ring for GPU
kernels only. A job calls forward and backward four times. Prints the shortest time of each over all rounds.
"""

import argparse
import sys
import time
from pathlib import Path

from collectives import run_ranks
from jobs import ROOT

HEADS, WIDTH, RANKS, CALLS = 8, 64, 2, 4


def peer_rank(length):
    import torch
    import torch.distributed as dist
    from torch.distributed.tensor.experimental._context_parallel import _attention as ring

    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward

    def forward(query, key, value, is_causal, **more):
        return flash(query, key, value, 0.0, is_causal)

    def backward(grad_out, query, key, value, out, logsumexp, is_causal, **more):
        return flash_backward(grad_out, query, key, value, out, logsumexp, 0.0, is_causal)

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ring._cp_options.enable_load_balance = True
    group = dist.group.WORLD
    best = [1e9, 1e9]
    for _ in range(CALLS):
        q, k, v, of_out = (torch.randn(1, HEADS, length // RANKS, WIDTH) for _ in range(4))
        dist.barrier()
        start = time.perf_counter()
        out, lse = ring._templated_ring_attention(group, 2, forward, q, k, v, is_causal=True)
        best[0] = min(best[0], time.perf_counter() - start)
        dist.barrier()
        start = time.perf_counter()
        ring._templated_ring_attention_backward(
            group, 2, backward, of_out, "grad_out", q, k, v, out, lse, is_causal=True)
        best[1] = min(best[1], time.perf_counter() - start)
    if dist.get_rank() == 0:
        print("PyTorch_ring", *best)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=ROOT / "build", type=Path)
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rank-of", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_of:
        return peer_rank(options.length)
    sizes = [str(size) for size in (HEADS, HEADS, options.length, WIDTH)]
    commands = [
        [sys.executable, __file__, "--rank-of", "--length", str(options.length)],
        [options.build.resolve() / "bin/time_attention", *sizes],
    ]
    best = {}
    for _ in range(options.rounds):
        for command in commands:
            for line in run_ranks(command, RANKS).splitlines():
                name, *seconds = line.split()
                best[name] = [min(pair) for pair in zip(map(float, seconds), best.get(name, (1e9, 1e9)))]
    peer = best["PyTorch_ring"]
    print(f"{options.length} positions, {HEADS} heads of {WIDTH}, {RANKS} ranks")
    print(f"{'':14s} {'forward':>10s} {'backward':>10s}   times as fast as PyTorch's ring")
    for name, (forward, backward) in best.items():
        both = sum(peer) / (forward + backward)
        print(f"{name:14s} {forward:8.3f} s {backward:8.3f} s   {peer[0] / forward:5.2f} {peer[1] / backward:5.2f}   both {both:.2f}")


if __name__ == "__main__":
    main()
