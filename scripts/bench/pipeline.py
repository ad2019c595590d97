#!/usr/bin/env python3
"""Compares am-run's pipelines with PyTorch's torch.distributed.pipelining, on CPUs.

  scripts/bench/pipeline.py [BUILD] [--shape a|b] [--rounds N] [--steps N] [--busy N]     (default build: build)

Needs a Python with torch and transformers. am-run is compared with transformers' Llama on 2 ranks, in two
stages with equal numbers of layers, under Schedule1F1B and ScheduleGPipe with 4 micro-batches. Gradients are
clipped by the norm over both ranks. "by cost" means that am-run also counts the cost of the head when it
assigns layers to stages. scripts/bench/jobs.py describes the printed figures.
"""

import jobs

MICRO_BATCHES = 4
SCHEDULES = {"1f1b": "Schedule1F1B", "gpipe": "ScheduleGPipe"}


def half_of(config, rank):
    """Returns the stage of rank 0 or 1: a module with half of the layers. The stage of rank 0 maps
    tokens to hidden states, and the stage of rank 1 maps hidden states to logits."""
    import torch
    from transformers import LlamaForCausalLM

    class Half(torch.nn.Module):
        def __init__(self):
            super().__init__()
            whole = LlamaForCausalLM(config)
            middle = config.num_hidden_layers // 2
            self.rotary = whole.model.rotary_emb
            self.layers = whole.model.layers[:middle] if rank == 0 else whole.model.layers[middle:]
            self.embedding = whole.model.embed_tokens if rank == 0 else None
            self.norm = whole.model.norm if rank == 1 else None
            self.head = whole.lm_head if rank == 1 else None

        def forward(self, x):
            if self.embedding is not None:
                x = self.embedding(x)
            positions = torch.arange(x.size(1)).unsqueeze(0)
            turned = self.rotary(x, positions)
            for layer in self.layers:
                x = layer(x, attention_mask=None, position_ids=positions, position_embeddings=turned)
            return x if self.head is None else self.head(self.norm(x))

    return Half()


def clip(model, max_norm=1.0):
    import torch
    import torch.distributed as dist

    gradients = [each.grad for each in model.parameters()]
    total = torch.stack(torch._foreach_norm(gradients)).square().sum()
    dist.all_reduce(total)
    torch._foreach_mul_(gradients, torch.clamp(max_norm / (total.sqrt() + 1e-6), max=1.0))


def peer_rank(schedule, shape, steps):
    import torch
    import torch.distributed as dist
    from torch.distributed import pipelining

    made = {}

    def make():
        from transformers import LlamaConfig

        config = LlamaConfig(**jobs.model_config(shape), attn_implementation="sdpa", use_cache=False)
        rank = dist.get_rank()
        model = made["model"] = half_of(config, rank)
        stage = pipelining.PipelineStage(model, rank, 2, torch.device("cpu"))

        def loss_of(logits, labels):
            return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

        made["schedule"] = getattr(pipelining, SCHEDULES[schedule])(stage, MICRO_BATCHES, loss_fn=loss_of)
        return model

    def passes(_, tokens):
        if dist.get_rank() == 0:
            made["schedule"].step(tokens[:, :-1].contiguous())
            return torch.zeros(())
        losses = []
        made["schedule"].step(target=tokens[:, 1:].contiguous(), losses=losses)
        return torch.stack(losses).mean()

    batch = dict(shape, batch=MICRO_BATCHES * shape["batch"])
    jobs.train_peer(make, batch, steps, 1, clip=lambda: clip(made["model"]), passes=passes)


def compare(build, name, options):
    shape = jobs.SHAPES[name]

    def peer(schedule):
        arguments = ["--rank-of", schedule, "--shape", name, "--steps", str(options.steps)]
        return lambda: jobs.run_peer(__file__, arguments, shape, MICRO_BATCHES)

    def ours(schedule, stages=1, balance="layers"):
        mesh = f"""pp_size = 2
[pipeline]
schedule = "{schedule}"
balance = "{balance}"
virtual_stages = {stages}
microbatches = {MICRO_BATCHES}"""
        strategy = f'name = "fsdp2"\n{jobs.POLICY}'
        return lambda: jobs.run_ours(build, shape, options.steps, strategy, mesh, MICRO_BATCHES)

    runs = {f"PyTorch {schedule}": peer(schedule) for schedule in SCHEDULES}
    runs.update({f"am-run {schedule}": ours(schedule) for schedule in SCHEDULES})
    runs["am-run 1f1b by cost"] = ours("1f1b", balance="cost")
    runs["am-run zbv_zero_bubble"] = ours("zbv_zero_bubble", 2)
    peers = {name: "PyTorch 1f1b" for name in runs if name.startswith("am-run")}
    peers["am-run gpipe"] = "PyTorch gpipe"
    jobs.compare(f"shape {name}: {shape}", runs, peers, options)


if __name__ == "__main__":
    jobs.run(__doc__, SCHEDULES, peer_rank, compare)
