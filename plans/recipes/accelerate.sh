#!/usr/bin/env bash
# Starts a script that uses accelerate with am-run instead of `accelerate launch`. am-run sets
# torchrun's environment variables, and Accelerator() reads them. If a rank fails, am-run's report
# names the rank that failed first, and the Python line at which every other rank was.
#
#   GPUS=8 plans/recipes/accelerate.sh train.py --learning-rate 1e-4
#
# To attach am-repl as well, add three lines to the script:
#
#   after accelerator.prepare(..):     import automesh.live
#                                      watch = automesh.live.watch(model, optimizer)
#   after optimizer.step():            watch.step(loss=loss)
set -euo pipefail
exec am-run --nproc "${GPUS:-1}" --run-dir "${RUN:-runs/accelerate}" --exec python "$@"
