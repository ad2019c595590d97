"""Plans of parallel training, checked and predicted; tensors of any checkpoint as numpy arrays.

    import automesh_tools as am

    am.check("plan.toml").ok                            # also am.check("job.toml", framework="torchtitan", ...)
    am.memory("plan.toml").peak_bytes
    am.cost("plan.toml").step_seconds
    am.search("llama-3.1-8b", gpus=8)[0].plan           # a dict, as `am-plan search --json` prints it

    with am.open_checkpoint("checkpoints/step-100") as checkpoint:
        checkpoint["model.norm.weight"]                 # a numpy array
        checkpoint["model.embed_tokens.weight", :10]    # reads ten rows

The functions run am-plan, whose program is in the same distribution; open_checkpoint() loads a library. Neither
needs torch.
"""

from ._checkpoint import Checkpoint, CheckpointError, Tensor, open_checkpoint
from ._commands import (
    CheckResult,
    Cost,
    Diagnostic,
    Gpu,
    Import,
    Layout,
    Memory,
    NearestRun,
    PlanError,
    Setting,
    Shard,
    StageMemory,
    check,
    cost,
    import_plan,
    memory,
    search,
    shards,
)

__all__ = [
    "CheckResult",
    "Checkpoint",
    "CheckpointError",
    "Cost",
    "Diagnostic",
    "Gpu",
    "Import",
    "Layout",
    "Memory",
    "NearestRun",
    "PlanError",
    "Setting",
    "Shard",
    "StageMemory",
    "Tensor",
    "check",
    "cost",
    "import_plan",
    "memory",
    "open_checkpoint",
    "search",
    "shards",
]
