#!/usr/bin/env bash
# Starts NeMo AutoModel 0.7 under am-run: the failure report names the rank that failed first, and the
# Python line at which every other rank was. Arguments are AutoModel's.
#
#   GPUS=8 plans/recipes/nemo_automodel.sh config.yaml --step_scheduler.max_steps=100
#
# AutoModel starts its recipe in the process of each rank if torchrun's variables are set, as am-run
# sets them. To attach am-repl as well, add three lines to the loop of the recipe
# (nemo_automodel/recipes/llm/train_ft.py, run_train_validation_loop):
#
#   before the loop:                   import automesh.live
#                                      watch = automesh.live.watch(self.model_parts, self.optimizer)
#   after the step:                    watch.step()
set -euo pipefail
exec am-run --nproc "${GPUS:-1}" --run-dir "${RUN:-runs/nemo_automodel}" \
  --exec python -m nemo_automodel.cli.app "$@"
