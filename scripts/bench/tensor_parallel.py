#!/usr/bin/env python3
"""Compares am-run's tensor parallelism with PyTorch's parallelize_module, on CPUs.

  scripts/bench/tensor_parallel.py [BUILD] [--shape a|b] [--rounds N] [--steps N] [--busy N]     (default build: build)

Needs a Python with torch and transformers. am-run is compared with transformers' Llama on 2 ranks under
torchtitan's tensor-parallel plan: ColwiseParallel and RowwiseParallel layers, a sharded embedding and head
and, with sequence parallelism, SequenceParallel norms. The loss is computed from full logits, or under
loss_parallel. Gradients are clipped with one all-reduce of a number, instead of a DTensor norm for each
parameter. scripts/bench/jobs.py describes the printed figures. Ratios are to PyTorch with the same setting of
sequence parallelism and the faster of the two losses.
"""

import argparse
import contextlib
import jobs

PEERS = {
    "PyTorch tp": ("tp", "whole"),
    "PyTorch tp, loss parallel": ("tp", "parallel"),
    "PyTorch tp, SP": ("sp", "whole"),
    "PyTorch tp, SP, loss parallel": ("sp", "parallel"),
}


def outer_styles(sequence, loss):
    """Returns the parallel styles of the modules outside the layers."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel

    stream = Shard(1) if sequence else Replicate()
    styles = {
        "model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=stream),
        "lm_head": ColwiseParallel(
            input_layouts=stream,
            output_layouts=Shard(-1) if loss == "parallel" else Replicate(),
            use_local_output=loss != "parallel",
        ),
    }
    return {**styles, "model.norm": SequenceParallel()} if sequence else styles


def layer_styles(sequence):
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel,
                                                   SequenceParallel)

    styles = {f"self_attn.{name}_proj": ColwiseParallel() for name in "qkv"}
    styles.update({f"mlp.{name}_proj": ColwiseParallel() for name in ("gate", "up")})
    for name in ("self_attn.o_proj", "mlp.down_proj"):
        styles[name] = RowwiseParallel(output_layouts=Shard(1) if sequence else Replicate())
    if sequence:
        styles["self_attn"] = PrepareModuleInput(
            input_kwarg_layouts={"hidden_states": Shard(1)},
            desired_input_kwarg_layouts={"hidden_states": Replicate()},
        )
        styles["mlp"] = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
        styles["input_layernorm"] = styles["post_attention_layernorm"] = SequenceParallel()
    return styles


def clip(model, max_norm=1.0):
    """Clips gradients by the norm over both ranks. Squares of sharded gradients are summed over the
    ranks; replicated gradients count once. The factor is that of clip_grad_norm_."""
    import torch
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor

    def local(tensor):
        return tensor.to_local() if isinstance(tensor, DTensor) else tensor

    def squares(gradients):
        norms = torch._foreach_norm(gradients) if gradients else [torch.zeros(())]
        return torch.stack(norms).square().sum()

    gradients = [each.grad for each in model.parameters()]
    cut = [each for each in gradients if isinstance(each, DTensor) and each.placements[0].is_shard()]
    whole = [local(each) for each in gradients if not any(each is other for other in cut)]
    total = squares([local(each) for each in cut])
    dist.all_reduce(total)
    norm = (total + squares(whole)).sqrt()
    coefficient = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    torch._foreach_mul_([local(each) for each in gradients], coefficient)


def peer_rank(kind, loss, shape, steps):
    import torch
    from torch.distributed.tensor.parallel import loss_parallel

    made = {}

    def make():
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import parallelize_module
        from transformers import LlamaConfig, LlamaForCausalLM

        config = LlamaConfig(**jobs.model_config(shape), attn_implementation="sdpa", use_cache=False)
        model = made["model"] = LlamaForCausalLM(config)
        mesh = init_device_mesh("cpu", (2,))
        parallelize_module(model, mesh, outer_styles(kind == "sp", loss))
        for layer in model.model.layers:
            parallelize_module(layer, mesh, layer_styles(kind == "sp"))
        return model

    positions = torch.arange(shape["seq"]).unsqueeze(0)

    def loss_of(model, tokens):
        logits = model(input_ids=tokens[:, :-1], position_ids=positions).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    with loss_parallel() if loss == "parallel" else contextlib.nullcontext():
        jobs.train_peer(make, shape, steps, 1, loss_of, clip=lambda: clip(made["model"]))


def compare(build, name, options):
    shape = jobs.SHAPES[name]

    def peer(kind, loss):
        arguments = ["--rank-of", kind, "--loss", loss, "--shape", name, "--steps", str(options.steps)]
        return lambda: jobs.run_peer(__file__, arguments, shape, replicas=1)

    def ours(sequence, shared):
        strategy = f'name = "fsdp2"\n{jobs.POLICY}\nsequence_parallel = {sequence}'
        return lambda: jobs.run_ours(build, shape, options.steps, strategy, "tp_size = 2", 1, shared)

    runs = {title: peer(*what) for title, what in PEERS.items()}
    runs.update({
        "am-run tp": ours("false", True),
        "am-run tp, Gloo": ours("false", False),
        "am-run tp, SP": ours("true", True),
        "am-run tp, SP, Gloo": ours("true", False),
    })

    def peers(found):
        plain = jobs.faster(found, [title for title, what in PEERS.items() if what[0] == "tp"])
        sequence = jobs.faster(found, [title for title, what in PEERS.items() if what[0] == "sp"])
        return {job: sequence if "SP" in job else plain for job in found if "am-run" in job}

    jobs.compare(f"shape {name}: {shape}", runs, peers, options)


def main():
    parser = jobs.argument_parser(__doc__)
    parser.add_argument("--rank-of", choices=("tp", "sp"), help=argparse.SUPPRESS)
    parser.add_argument("--loss", choices=("whole", "parallel"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_of:
        return peer_rank(options.rank_of, options.loss, jobs.SHAPES[options.shape], options.steps)
    jobs.compare_shapes(compare, options)


if __name__ == "__main__":
    main()
