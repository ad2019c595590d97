"""A small PyTorch job for repl_python_test.py: train_in_python.py KIND STEPS [KEY=VALUE ...]

KIND: one, ddp, fsdp2, tp, tp_fsdp2. Keys: nap (seconds in each step), watch (0: without automesh.live),
facts (step after which the norms of full tensors are written to facts.json), hang (RANK:STEP: the rank
sleeps in this step), diverge (RANK:STEP: the rank changes one element after this step), fail
(RANK:STEP: the rank raises an exception), sigterm ("raise": a handler of SIGTERM exits), config (folder: the
model has a config as models of transformers do, loaded from this folder).
"""
import json
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, width=16, layers=2):
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, 50, bias=False)
        self.register_buffer("seen", torch.zeros(3))
        self.register_buffer("scratch", torch.zeros(3), persistent=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def parallel(model, kind):
    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    if kind in ("tp", "tp_fsdp2"):
        names = ("tp",) if kind == "tp" else ("dp_shard", "tp")
        mesh = init_device_mesh("cpu", (2,) * len(names), mesh_dim_names=names)
        for layer in model.layers:
            parallelize_module(layer, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        if kind == "tp":
            return model
        for layer in model.layers:
            fully_shard(layer, mesh=mesh["dp_shard"])
        fully_shard(model, mesh=mesh["dp_shard"])
    if kind == "fsdp2":
        for layer in model.layers:
            fully_shard(layer)
        fully_shard(model)
    return model


class Config:
    """The methods and fields of a transformers config that automesh.live reads."""

    def __init__(self, folder):
        self._name_or_path = folder

    def to_json_string(self, use_diff=True):
        return "{}" if use_diff else json.dumps({"model_type": "toy"})


def facts(model, optimizer):
    """Returns {name: norm} of all parameters, gradients and first moments (exp_avg), computed on
    full tensors."""
    found = {}
    for name, parameter in model.named_parameters():
        name = name.removeprefix("module.")
        tensors = {name: parameter, f"grad.{name}": parameter.grad,
                   f"optim.state.{name}.exp_avg": optimizer.state[parameter]["exp_avg"]}
        for key, tensor in tensors.items():
            tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
            found[key] = tensor.double().norm().item()
    return found


def main():
    kind, steps = sys.argv[1], int(sys.argv[2])
    keys = dict(word.split("=") for word in sys.argv[3:])
    at = {name: tuple(map(int, keys[name].split(":"))) for name in ("hang", "diverge", "fail") if name in keys}
    torch.manual_seed(0)
    if kind != "one":
        dist.init_process_group("gloo")
    rank = dist.get_rank() if dist.is_initialized() else 0
    if keys.get("sigterm") == "raise":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    model = Net()
    if "config" in keys:
        model.config = Config(keys["config"])
    model = parallel(model, kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    watch = None
    if keys.get("watch") != "0":
        import automesh.live
        watch = automesh.live.watch(model, optimizer, max_steps=steps)
    data = torch.Generator().manual_seed(1 + (rank if kind in ("ddp", "fsdp2") else 0))
    loss = None
    for step in range(1, steps + 1):
        if at.get("hang") == (rank, step):
            time.sleep(1000)
        if at.get("fail") == (rank, step):
            raise ValueError("a planted failure")
        tokens = torch.randint(0, 50, (2, 8), generator=data)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        if at.get("diverge") == (rank, step):
            with torch.no_grad():
                next(model.parameters()).view(-1)[7] += 1.0
        time.sleep(float(keys.get("nap", 0.0)))
        if keys.get("facts") == str(step):
            found = facts(model, optimizer)
            if rank == 0:
                with open("facts.json", "w", encoding="utf-8") as file:
                    json.dump(found, file)
        if watch:
            watch.step(loss=loss)
    print(f"loss of rank {rank} {loss.item().hex()}", flush=True)
    if watch:
        watch.close()
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
