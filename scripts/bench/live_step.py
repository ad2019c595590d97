#!/usr/bin/env python3
"""Prints the time of automesh.live's watch.step() while no client is attached, beside an empty call.

    PYTHONPATH=apps/python python scripts/bench/live_step.py
"""
import tempfile
import time

import torch

import automesh.live

CALLS = 200_000


def seconds_of(step):
    loss = torch.zeros(())
    begun = time.perf_counter()
    for _ in range(CALLS):
        step(loss=loss)
    return (time.perf_counter() - begun) / CALLS


def main():
    model = torch.nn.Linear(8, 8)
    with tempfile.TemporaryDirectory() as run:
        watch = automesh.live.watch(model, torch.optim.SGD(model.parameters()), run=run, log=False)
        for _ in range(3):
            step, empty = seconds_of(watch.step), seconds_of(lambda loss: None)
            print(f"step {step * 1e9:.0f} ns, an empty call {empty * 1e9:.0f} ns: {step / 1e-3:.3%} of a step of 1 ms")
        watch.close()


if __name__ == "__main__":
    main()
