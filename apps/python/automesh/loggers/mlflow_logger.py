"""Sends the metrics of a run to MLflow: see run_tail.py."""
import os
import time

import run_tail

MOST_METRICS = 1000  # limits of the server for one request
MOST_PARAMS = 100
LONGEST_VALUE = 6000


def experiment_id(client):
    given = os.environ.get("MLFLOW_EXPERIMENT_ID")
    if given:
        return given
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "automesh")
    experiment = client.get_experiment_by_name(name)
    return experiment.experiment_id if experiment else client.create_experiment(name)


class Mlflow:
    package = "mlflow"

    def __init__(self, run):
        import mlflow

        self.entities = mlflow.entities
        self.client = mlflow.MlflowClient()
        if "id" in run.state:
            self.id = run.state["id"]
            self.client.update_run(self.id, status="RUNNING")
        else:
            self.id = self.client.create_run(experiment_id(self.client), run_name=run.name).info.run_id
            run.state["id"] = self.id
            run.state.save()
        self.log_plan(run.plan)

    def log_plan(self, plan):
        """Logs the plan's values as parameters. MLflow does not let parameters change, so changed values become tags."""
        known = self.client.get_run(self.id).data.params
        plan = {key: str(value)[:LONGEST_VALUE] for key, value in plan.items()}
        params = [self.entities.Param(key, value) for key, value in plan.items() if key not in known]
        for i in range(0, len(params), MOST_PARAMS):
            self.client.log_batch(self.id, params=params[i : i + MOST_PARAMS])
        for key, value in plan.items():
            if known.get(key, value) != value:
                self.client.set_tag(self.id, key, value)

    def send(self, records):
        metrics = [
            self.entities.Metric(name, value, int(1000 * (record.time or time.time())), record.step)
            for record in records
            for name, value in record.values.items()
            if name != "step"
        ]
        for i in range(0, len(metrics), MOST_METRICS):
            self.client.log_batch(self.id, metrics=metrics[i : i + MOST_METRICS])

    def close(self, failed):
        self.client.set_terminated(self.id, "FAILED" if failed else "FINISHED")


if __name__ == "__main__":
    run_tail.main("mlflow", Mlflow)
