#!/usr/bin/env python3
"""Compares am-run with PyTorch's own FSDP2 and DDP, on CPUs.

  scripts/bench/fsdp.py [BUILD] [--shape a|b] [--rounds N] [--steps N] [--busy N]     (default build: build)

Needs a Python with torch and transformers. am-run is compared with transformers' Llama under fully_shard,
with one unit per layer, or under DistributedDataParallel. Both clip gradients and use
torch.optim.AdamW(fused=True). scripts/bench/jobs.py describes the printed figures.
"""


import jobs


def peer_rank(kind, shape, steps):
    def make():
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        config = LlamaConfig(**jobs.model_config(shape), attn_implementation="sdpa", use_cache=False)
        model = LlamaForCausalLM(config)
        if kind == "ddp":
            return torch.nn.parallel.DistributedDataParallel(model)
        return jobs.shard_by_layer(model)

    jobs.train_peer(make, shape, steps)


def compare(build, name, options):
    shape = jobs.SHAPES[name]

    def peer(kind):
        arguments = ["--rank-of", kind, "--shape", name, "--steps", str(options.steps)]
        return lambda: jobs.run_peer(__file__, arguments, shape)

    def ours(kind, shared):
        strategy = f'name = "{kind}"\n{jobs.POLICY if kind == "fsdp2" else ""}'
        return lambda: jobs.run_ours(build, shape, options.steps, strategy, shared=shared)

    runs = {
        "PyTorch FSDP2": peer("fsdp2"),
        "am-run fsdp2": ours("fsdp2", True),
        "am-run fsdp2, Gloo": ours("fsdp2", False),
        "PyTorch DDP": peer("ddp"),
        "am-run ddp": ours("ddp", True),
        "am-run ddp, Gloo": ours("ddp", False),
    }
    peer_of = {job: "PyTorch FSDP2" if "fsdp2" in job else "PyTorch DDP" for job in runs if "am-run" in job}
    jobs.compare(f"shape {name}: {shape}", runs, peer_of, options)


if __name__ == "__main__":
    jobs.run(__doc__, ("fsdp2", "ddp"), peer_rank, compare)
