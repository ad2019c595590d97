"""Plans that the steps of scripts/gpu_check train, and the comparison of their losses."""

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Plans and curves come from tests/cli, model configurations from scripts/bench.
os.environ["AM_SOURCE_DIR"] = str(ROOT)
os.environ.setdefault("AM_BIN_DIR", "")
sys.path[:0] = [str(ROOT / "tests" / "cli"), str(ROOT / "scripts" / "bench")]
import curve_support
import jobs
from run_support import FULL_PRECISION, plan_text

BFLOAT16 = 'mp_policy = { param_dtype = "bfloat16", reduce_dtype = "float32" }'


def loop_plan(backend, ranks=1, keys="", steps=20, more=""):
    """Returns the plan of tests/data/loop, for which PyTorch's 20 losses are recorded."""
    text = plan_text(more, f"world_size = {ranks}", steps=steps)
    return curve_support.on_backend(text.replace("[strategy]\n", f"[strategy]\n{keys}\n"), backend)


def rounded_family_plan(family, backend):
    """Returns curve_support's plan of a family, with computation in bfloat16 and reductions in float32."""
    return curve_support.family_plan(family, backend).replace(FULL_PRECISION, BFLOAT16)


def sized_plan(check, name, shape, backend, steps, keys="", more="", micro_batches=1):
    """Returns a plan that trains a model with the sizes `shape` from scratch on synthetic tokens, and saves nothing.
    The model is a Llama, or a Mixtral if `shape` contains experts."""
    folder = check.folder / f"{name}-model"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(model_config(shape)))
    return f"""
[model]
path = "{folder}"
weights = "none"
[mesh]
world_size = 1
[strategy]
name = "fsdp2"
backend = "{backend}"
{BFLOAT16}
{keys}
[train]
seq_len = {shape["seq"]}
micro_batch_size = 1
global_batch_size = {micro_batches}
max_steps = {steps}
[data]
kind = "synthetic"
[checkpoint]
last = false
{more}
"""


def model_config(shape):
    config = jobs.model_config(shape) | {"num_key_value_heads": shape["key_heads"], "rope_theta": 500000.0}
    if "experts" in shape:
        config |= {
            "architectures": ["MixtralForCausalLM"],
            "model_type": "mixtral",
            "num_local_experts": shape["experts"],
            "num_experts_per_tok": 2,
            "sliding_window": None,
        }
    return config


def shape(hidden, intermediate, layers, heads, key_heads, vocab, seq, **more):
    return dict(hidden=hidden, intermediate=intermediate, layers=layers, heads=heads, key_heads=key_heads, vocab=vocab, seq=seq, **more)


SHAPES = {
    "1B": shape(2048, 8192, 16, 32, 8, 128256, 8192),
    "8B, 8 layers": shape(4096, 14336, 8, 32, 8, 128256, 8192),
    "Mixtral, 2 layers": shape(4096, 14336, 2, 32, 8, 32000, 8192, experts=8),
}
TINY = shape(64, 128, 2, 4, 2, 256, 32)


def worst(losses, wanted):
    """Returns the largest relative difference of two curves; infinite if `losses` is shorter or contains NaN."""
    if len(losses) < len(wanted):
        return float("inf")
    return max(abs(a / b - 1) if a == a else float("inf") for a, b in zip(losses, wanted))


def losses_of(records):
    return [record["loss"] for record in records]
