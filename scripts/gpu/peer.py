"""The PyTorch reference of scripts/gpu_check, on one GPU.

    peer.py ceilings                      rates of copies on the device and to pinned memory, and of a bfloat16 matmul
    peer.py train SHAPE WARM TIMED        WARM steps, then TIMED timed steps of a Llama or Mixtral with the sizes SHAPE
                                          (JSON): layers compiled one at a time, SDPA, float32 parameters under
                                          autocast to bfloat16, fused AdamW, clipping

Prints one JSON object.
"""

import json
import statistics
import sys
import time

START = time.monotonic()

import torch
import torch.nn.functional as F
from torch import nn


def timed(body, repeats=10):
    """Returns the median seconds of a call, measured by CUDA events."""
    for _ in range(3):
        body()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        body()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


def ceilings():
    source = torch.randn(1 << 30, device="cuda", dtype=torch.bfloat16)
    target = torch.empty_like(source)
    copied = 2 * source.numel() * source.element_size() / timed(lambda: target.copy_(source))
    n = 8192
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = 2 * n**3 / timed(lambda: a @ b)
    host = torch.empty(1 << 28, dtype=torch.uint8, pin_memory=True)
    device = torch.empty_like(host, device="cuda")
    to_host = host.numel() / timed(lambda: host.copy_(device, non_blocking=True))
    return {
        "PyTorch, NCCL": f"{torch.__version__}, {'.'.join(map(str, torch.cuda.nccl.version()))}",
        "copy on the device": f"{copied / 1e12:.2f} TB/s",
        "bfloat16 product": f"{product / 1e12:.0f} TFLOP/s",
        "copy to pinned memory": f"{to_host / 1e9:.1f} GB/s",
    }


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.width = shape["hidden"] // shape["heads"]
        keys = shape["key_heads"] * self.width
        self.q, self.k, self.v = (nn.Linear(shape["hidden"], out, bias=False) for out in (shape["hidden"], keys, keys))
        self.o = nn.Linear(shape["hidden"], shape["hidden"], bias=False)

    def forward(self, x, cos, sin):
        def heads(y):
            return y.unflatten(-1, (-1, self.width)).transpose(1, 2)

        def rotated(y):
            first, second = y.chunk(2, -1)
            return y * cos + torch.cat((-second, first), -1) * sin

        q, k, v = rotated(heads(self.q(x))), rotated(heads(self.k(x))), heads(self.v(x))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(out.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.gate, self.up = (nn.Linear(shape["hidden"], shape["intermediate"], bias=False) for _ in range(2))
        self.down = nn.Linear(shape["intermediate"], shape["hidden"], bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """A feed-forward of experts with top-2 routing. The tokens' rows are sorted by expert, and a grouped matmul
    multiplies the rows of all experts."""

    def __init__(self, shape):
        super().__init__()
        count, hidden, inner = shape["experts"], shape["hidden"], shape["intermediate"]
        self.router = nn.Linear(hidden, count, bias=False)
        self.gate, self.up = (nn.Parameter(torch.randn(count, hidden, inner) * 0.02) for _ in range(2))
        self.down = nn.Parameter(torch.randn(count, inner, hidden) * 0.02)
        self.count = count

    def forward(self, x):
        rows = x.flatten(0, 1)
        weights, experts = self.router(rows).softmax(-1, dtype=torch.float32).topk(2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        order = experts.flatten().argsort(stable=True)
        ends = torch.bincount(experts.flatten(), minlength=self.count).cumsum(0).to(torch.int32)
        taken = rows[order // 2].bfloat16()
        gate, up, down = (weight.bfloat16() for weight in (self.gate, self.up, self.down))
        inner = F.silu(torch._grouped_mm(taken, gate, offs=ends)) * torch._grouped_mm(taken, up, offs=ends)
        out = torch._grouped_mm(inner, down, offs=ends) * weights.flatten()[order, None].bfloat16()
        return torch.zeros_like(rows).index_add(0, order // 2, out.to(rows.dtype)).view_as(x)


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.first, self.second = (nn.RMSNorm(shape["hidden"], eps=1e-5) for _ in range(2))
        self.attention = Attention(shape)
        self.feed_forward = Experts(shape) if "experts" in shape else FeedForward(shape)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.first(x), cos, sin)
        return x + self.feed_forward(self.second(x))


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.embedding = nn.Embedding(shape["vocab"], shape["hidden"])
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape["layers"]))
        self.norm = nn.RMSNorm(shape["hidden"], eps=1e-5)
        self.head = nn.Linear(shape["hidden"], shape["vocab"], bias=False)
        width = shape["hidden"] // shape["heads"]
        angles = torch.outer(torch.arange(shape["seq"]), 500000.0 ** -(torch.arange(0, width, 2) / width)).repeat(1, 2)
        self.register_buffer("cos", angles.cos().bfloat16())
        self.register_buffer("sin", angles.sin().bfloat16())

    def forward(self, ids):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.head(self.norm(x))


def loss_of(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def train(shape, warm, steps):
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Model(shape)
    for layer in model.layers:
        layer.compile()
    loss_function = torch.compile(loss_of)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    ids = torch.randint(shape["vocab"], (warm + steps, 1, shape["seq"] + 1), device="cuda")
    seconds, first = [], None
    for step in range(warm + steps):
        begin = time.monotonic()
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss_function(model(ids[step, :, :-1]), ids[step, :, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        if first is None:
            first = time.monotonic() - START
        if step >= warm:
            seconds.append(time.monotonic() - begin)
    return {
        "tokens_per_second": shape["seq"] / statistics.median(seconds),
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "first_step_seconds": first,
    }


if __name__ == "__main__":
    if sys.argv[1] == "ceilings":
        print(json.dumps(ceilings()))
    else:
        print(json.dumps(train(json.loads(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))))
