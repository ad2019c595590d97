"""Sends the metrics of a run to Comet: see run_tail.py."""
import os
import uuid

import run_tail


class Comet:
    package = "comet_ml"

    def __init__(self, run):
        import comet_ml

        run.state.setdefault("id", uuid.uuid4().hex)
        run.state.save()
        self.experiment = comet_ml.start(
            experiment_key=os.environ.get("COMET_EXPERIMENT_KEY", run.state["id"]),
            mode="get_or_create",
            project_name=os.environ.get("COMET_PROJECT_NAME", "automesh"),
            experiment_config=comet_ml.ExperimentConfig(
                name=os.environ.get("COMET_EXPERIMENT_NAME", run.name),
                log_code=False,
                parse_args=False,
                auto_param_logging=False,
                auto_output_logging=False,
            ),
        )
        self.experiment.log_other("state", "running")
        self.experiment.log_parameters(run.plan)

    def send(self, records):
        for record in records:
            values = {name: value for name, value in record.values.items() if name != "step"}
            self.experiment.log_metrics(values, step=record.step)

    def close(self, failed):
        self.experiment.log_other("state", "failed" if failed else "finished")
        self.experiment.end()


if __name__ == "__main__":
    run_tail.main("comet", Comet)
