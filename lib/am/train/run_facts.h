// Facts that identify a run: model, data, batch, seeds, optimizer. A checkpoint stores them, so
// that a resumed job continues the same run or reports the differences.
//
//   const Json here = run_facts(plan, config, reader.source());
//   for (const auto& d : differences(info.facts, here)) std::cerr << d.text() << "\n";
//
// They exclude layout, precision of the computation, number of steps, checkpoints and metrics.
#pragma once

#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/config/plan.h"
#include "am/data/token_source.h"
#include "am/model/config.h"

namespace am::train {

// Returns one object such as {"train.seq_len": 2048}. It has the plan's keys under their names, the
// model's config.json with the prefix "config.", and the data as "data.tokens" and
// "data.fingerprint". `plan.train.global_batch_size` must be set (with_batch in resume.h).
Json run_facts(const config::Plan& plan, const model::ModelConfig& config,
               const data::TokenSource& source);

struct FactDifference {
  std::string key;
  Json there;  // in the checkpoint
  Json here;
  // Whether training would not continue the same run. False for what users may change during a run:
  // the learning rate and its schedule, decay, clipping.
  bool breaks = false;

  // "train.seed: 0 there, 7 here"
  std::string text() const;
};

// Returns the differences in the order of `here`. Ignores facts that only one of them has: an older
// am-run did not store them.
std::vector<FactDifference> differences(const Json& there, const Json& here);

}  // namespace am::train
