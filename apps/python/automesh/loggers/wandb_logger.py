"""Sends the metrics of a run to Weights & Biases: see run_tail.py."""
import os
import uuid

import run_tail


class Wandb:
    package = "wandb"

    def __init__(self, run):
        import wandb

        os.environ.setdefault("WANDB_CONSOLE", "off")  # RUN/logs already contains the output
        run.state.setdefault("id", uuid.uuid4().hex)
        run.state.save()
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "automesh"),
            name=os.environ.get("WANDB_NAME", run.name),
            id=os.environ.get("WANDB_RUN_ID", run.state["id"]),
            dir=os.environ.get("WANDB_DIR", str(run.folder)),
            resume="allow",
        )
        self.run.config.update(run.plan, allow_val_change=True)
        # Charts use the metric "step" as their x axis. W&B's own step can only increase, so W&B would
        # drop steps that are trained again under a changed plan.
        self.run.define_metric("step")
        self.run.define_metric("*", step_metric="step")

    def send(self, records):
        for record in records:
            self.run.log(record.values)

    def close(self, failed):
        self.run.finish(exit_code=int(failed))


if __name__ == "__main__":
    run_tail.main("wandb", Wandb)
