#!/usr/bin/env python3
"""Compares am-run's FSDP2 with transformers under PyTorch's fully_shard, on a model with experts, on CPUs.

  scripts/bench/experts.py [BUILD] [--shape a|b] [--rounds N] [--steps N] [--busy N]     (default build: build)

Needs a Python with torch and transformers. The model is a qwen3_moe with the sizes of scripts/bench/fsdp.py
and 16 experts. Each token is routed to 4 experts, which together are as wide as the feed-forward of fsdp.py's
model. am-run is compared with transformers' Qwen3MoeForCausalLM with one FSDP unit per layer, under both of
its expert implementations: grouped_mm (the default: tokens sorted by expert, then
torch.nn.functional.grouped_mm) and eager (a loop over experts). scripts/bench/jobs.py describes the printed
figures; ratios are to the faster implementation.
"""

import jobs

EXPERTS, TAKEN = 16, 4
WAYS = ("grouped_mm", "eager")


def model_config(shape):
    config = {key: value for key, value in jobs.model_config(shape).items() if key != "architectures"}
    return {
        **config,
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "head_dim": shape["hidden"] // shape["heads"],
        "num_experts": EXPERTS,
        "num_experts_per_tok": TAKEN,
        "moe_intermediate_size": shape["intermediate"] // TAKEN,
        "norm_topk_prob": True,
    }


def peer_rank(way, shape, steps):
    def make():
        from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

        config = Qwen3MoeConfig(**model_config(shape), attn_implementation="sdpa", use_cache=False)
        model = Qwen3MoeForCausalLM(config)
        model.set_experts_implementation(way)
        return jobs.shard_by_layer(model)

    jobs.train_peer(make, shape, steps)


def compare(build, name, options):
    shape = jobs.SHAPES[name]

    def peer(way):
        arguments = ["--rank-of", way, "--shape", name, "--steps", str(options.steps)]
        return lambda: jobs.run_peer(__file__, arguments, shape)

    def ours(shared):
        strategy = f'name = "fsdp2"\n{jobs.POLICY}'
        return lambda: jobs.run_ours(build, shape, options.steps, strategy, shared=shared, config=model_config)

    runs = {f"PyTorch FSDP2, {way}": peer(way) for way in WAYS}
    runs.update({"am-run fsdp2": ours(True), "am-run fsdp2, Gloo": ours(False)})

    def peers(found):
        best = jobs.faster(found, [job for job in runs if "PyTorch" in job])
        return {job: best for job in found if "am-run" in job}

    jobs.compare(f"shape {name}: {shape}, {EXPERTS} experts, {TAKEN} per token", runs, peers, options)


if __name__ == "__main__":
    jobs.run(__doc__, WAYS, peer_rank, compare)
