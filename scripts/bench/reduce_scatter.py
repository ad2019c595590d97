#!/usr/bin/env python3
"""Compares Gloo's reduce-scatter with an all-to-all and a local sum (lib/decisions/0003).

Needs PyTorch: python3 scripts/bench/reduce_scatter.py. Runs on 2 and on 4 ranks of one machine,
with three sizes of tensors. Prints the best time of 12 runs of each way, and the ratio of both
times; the times themselves depend on the machine.
"""

import os
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

REPEATS = 12


def best_ms(collective):
    times = []
    for _ in range(REPEATS):
        dist.barrier()
        start = time.perf_counter()
        collective()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def rank_main(rank, world, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    for numel in (1 << 14, 1 << 18, 1 << 22):
        whole, parts = torch.randn(numel), torch.empty(numel)
        mine = torch.empty(numel // world)

        def exchange_and_sum():
            dist.all_to_all_single(parts, whole)
            torch.sum(parts.view(world, -1), 0, out=mine)

        direct = best_ms(lambda: dist.reduce_scatter_tensor(mine, whole))
        ours = best_ms(exchange_and_sum)
        if rank == 0:
            kib = numel * 4 >> 10
            print(f"{world} ranks {kib:6d} KiB  reduce_scatter {direct:8.3f} ms  "
                  f"all_to_all + sum {ours:8.3f} ms  ratio {direct / ours:.2f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    for world in (2, 4):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        mp.spawn(rank_main, (world, port), world)
