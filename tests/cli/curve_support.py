"""Plans of every strategy and mesh axis for which PyTorch's losses are recorded, on any backend.
scripts/gpu_check trains them too."""

import json

from run_support import DATA, RunTest, plan_text

# name: (number of ranks, keys of [mesh], name of the strategy, its other keys, other sections)
ROWS = {
    "fsdp2": (2, "", "fsdp2", "", ""),
    "fsdp2, accumulation": (2, "", "fsdp2", "defer_fsdp_grad_sync = false", ""),
    "fsdp2, offload": (2, "", "fsdp2", "offload_policy = { pin_memory = true }", ""),
    "hsdp": (4, "dp_replicate_size = 2", "fsdp2", "", ""),
    "megatron_fsdp": (2, "", "megatron_fsdp", "zero_dp_strategy = 3", ""),
    "megatron_fsdp optim": (2, "", "megatron_fsdp", "zero_dp_strategy = 1", ""),
    "ddp": (2, "", "ddp", "", ""),
    "tp": (2, "tp_size = 2", "fsdp2", "", ""),
    "tp, sequence parallel": (2, "tp_size = 2", "fsdp2", "sequence_parallel = true", ""),
    "tp x fsdp2": (4, "tp_size = 2", "fsdp2", "", ""),
    "cp, ring": (2, "cp_size = 2", "fsdp2", "", '[context]\nmethod = "ring"'),
    "cp, all_gather": (2, "cp_size = 2", "fsdp2", "", '[context]\nmethod = "all_gather"'),
    "cp, ulysses": (2, "cp_size = 2", "fsdp2", "", '[context]\nmethod = "ulysses"'),
    "pp, 1f1b": (2, "pp_size = 2", "fsdp2", "", '[pipeline]\nschedule = "1f1b"\nmicrobatches = 4'),
}


def on_backend(text, backend):
    return text.replace("[strategy]\n", f'[strategy]\nbackend = "{backend}"\n')


def row_plan(name, backend):
    """Returns the plan of a row of ROWS. The expected losses of this plan are loop_losses()."""
    ranks, mesh, strategy, keys, more = ROWS[name]
    text = plan_text(more, f"world_size = {ranks}\n{mesh}", strategy)
    text = text.replace("[strategy]\n", f"[strategy]\n{keys}\n")
    if "[pipeline]" in more:
        text = text.replace("micro_batch_size = 2", "micro_batch_size = 1")
    return on_backend(text, backend)


def zero_bubble_plan(backend):
    """Returns a zero-bubble plan. The schedule needs four layers, and PyTorch's losses are not
    recorded for a model of four layers, so the expected losses are those of one_rank_plan()."""
    schedule = 'schedule = "interleaved_zero_bubble"\nvirtual_stages = 2\nmicrobatches = 4'
    text = plan_text(f"[pipeline]\n{schedule}", "world_size = 2\npp_size = 2")
    text = text.replace("loop/model", "table_deep").replace("micro_batch_size = 2", "micro_batch_size = 1")
    return on_backend(text, backend)


def one_rank_plan():
    """Returns a plan that trains zero_bubble_plan()'s model on one rank on the host."""
    return on_backend(plan_text(mesh="world_size = 1").replace("loop/model", "table_deep"), "gloo")


def family_plan(family, backend, mesh="world_size = 1"):
    """Returns a plan that trains a family's small model. The expected losses of this plan are
    family_losses(family)."""
    text = plan_text(mesh=mesh).replace("loop/model", f"hf/{family}").replace("lr = 1e-2", "lr = 2e-3")
    return on_backend(text, backend)


def loop_losses():
    return json.loads((DATA / "loop" / "losses.json").read_text())["losses"]


def family_losses(family):
    return json.loads((DATA / "loop" / "families.json").read_text())[family]["losses"]


class CurveTest(RunTest):
    """Compares a plan's losses with PyTorch's losses if they are recorded, otherwise with one
    rank's."""

    def follow(self, text, losses, run):
        result = self.am_run(self.write_plan(text), "--run-dir", self.path / run, "--json")
        if "error[runtime.backend]" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual(result.returncode, 0, result.stderr)
        records = self.metrics(run)
        for record, loss in zip(records, losses):
            self.assertAlmostEqual(record["loss"] / loss, 1.0, delta=1e-4)
        self.assertEqual(len(records), 20)
        self.assertGreater(records[-1]["peak_memory_bytes"], 0)

    def strategies(self, backend):
        for number, name in enumerate(ROWS):
            with self.subTest(name):
                self.follow(row_plan(name, backend), loop_losses(), f"run-{number}")

    def zero_bubble(self, backend):
        self.train(self.write_plan(one_rank_plan(), "one.toml"), "one")
        wanted = [record["loss"] for record in self.metrics("one")]
        self.follow(zero_bubble_plan(backend), wanted, "run")

    def experts(self, backend):
        text = family_plan("qwen3_moe", backend, "world_size = 2\nep_size = 2")
        self.follow(text, family_losses("qwen3_moe"), "run")
