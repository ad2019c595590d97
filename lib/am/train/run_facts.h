// Collects the facts that identify a run: model, data, batch, seeds and optimizer. A checkpoint
// stores these facts. A job that resumes compares them with its own, and reports differences.
//
//   const Json here = run_facts(plan, config, reader);
//   for (const auto& d : differences(info.facts, here)) std::cerr << d.text() << "\n";
//
// A run's facts do not include layout, strategy (with its compute dtypes), checkpoints or metrics.
// The facts include the number of steps only if the learning-rate schedule depends on it.
#pragma once

#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/config/plan.h"
#include "am/data/batch.h"
#include "am/model/config.h"

namespace am::train {

// Returns a JSON object with these facts: the plan's keys that are compared, under their names (for
// example "train.seq_len"); for a wsd schedule, train.max_steps as "scheduler.end"; the fields of
// `config`, with the prefix "config."; and, unless the data are synthetic, "data.tokens" and
// "data.fingerprint".
// `plan.train.global_batch_size` must be set (with_batch in resume.h).
Json run_facts(const config::Plan& plan, const model::ModelConfig& config,
               const data::BatchReader& reader);

struct FactDifference {
  std::string key;
  Json there;  // value in the checkpoint
  Json here;   // value in this job
  // True if training with this difference would not continue the same run. False for settings that
  // users may change during a run, for example the learning rate, its schedule, weight decay and
  // gradient clipping.
  bool breaks = false;

  // Returns a description for the user, for example "train.seed: 0 there, 7 here".
  std::string text() const;
};

// Returns the differences in the order of `here`. `there`: the checkpoint's facts; `here`: this
// job's facts. Ignores facts that are missing in one of the two objects, because an older am-run
// may not have stored them.
std::vector<FactDifference> differences(const Json& there, const Json& here);

}  // namespace am::train
