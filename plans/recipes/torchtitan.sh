#!/usr/bin/env bash
# Starts torchtitan 0.2 or 0.3 with am-run. If a rank fails, am-run's report names the rank that
# failed first, and the Python line at which every other rank was. Arguments are passed to torchtitan.
#
#   GPUS=8 plans/recipes/torchtitan.sh --job.config_file llama3_8b.toml        # 0.2
#   GPUS=8 plans/recipes/torchtitan.sh --module llama3 --config llama3_8b      # 0.3
#
# To attach am-repl as well, add three lines to Trainer.train() of torchtitan (train.py; 0.3: trainer.py):
#
#   before the loop:                   import automesh.live
#                                      watch = automesh.live.watch(self.model_parts, self.optimizers)
#   after self.train_step(..):         watch.step()
set -euo pipefail
exec am-run --nproc "${GPUS:-1}" --run-dir "${RUN:-runs/torchtitan}" --exec python -m torchtitan.train "$@"
