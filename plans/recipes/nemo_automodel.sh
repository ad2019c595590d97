#!/usr/bin/env bash
# Starts NeMo AutoModel 0.7 with am-run. If a rank fails, am-run's report names the rank that failed
# first, and the Python line at which every other rank was. Arguments are passed to AutoModel.
#
#   GPUS=8 plans/recipes/nemo_automodel.sh config.yaml --step_scheduler.max_steps=100
#
# am-run sets torchrun's environment variables in the process of each rank, and AutoModel therefore
# runs its recipe in this process. To attach am-repl as well, add three lines to the loop of the
# recipe (run_train_validation_loop in nemo_automodel/recipes/llm/train_ft.py):
#
#   before the loop:                   import automesh.live
#                                      watch = automesh.live.watch(self.model_parts, self.optimizer)
#   after the step:                    watch.step()
set -euo pipefail
exec am-run --nproc "${GPUS:-1}" --run-dir "${RUN:-runs/nemo_automodel}" \
  --exec python -m nemo_automodel.cli.app "$@"
