// What a run is: the model, the data, the batch, the seeds, the optimizer. A checkpoint keeps it,
// so that training goes on as the run that wrote it, or says in what it differs.
//
//   const Json here = run_facts(plan, config, reader.source());
//   for (const auto& d : differences(info.facts, here)) std::cerr << d.text() << "\n";
//
// Layout, precision of the computation, number of steps, checkpoints and metrics are no part of it.
#pragma once

#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/config/plan.h"
#include "am/data/token_source.h"
#include "am/model/config.h"

namespace am::train {

// One object, "train.seq_len": 2048; the plan's keys by their names, the model's config.json by
// "config." and its data by "data.tokens" and "data.fingerprint". `plan`: its batch is filled in.
Json run_facts(const config::Plan& plan, const model::ModelConfig& config,
               const data::TokenSource& source);

struct FactDifference {
  std::string key;
  Json there;  // in the checkpoint
  Json here;
  // Training would not go on as the same run. Otherwise what a user may well change on the way: the
  // learning rate and its schedule, decay, clipping.
  bool breaks = false;

  // "train.seed: 0 there, 7 here"
  std::string text() const;
};

// In the order of `here`. A fact that only one of them has is passed over: an older am-run did not
// know it.
std::vector<FactDifference> differences(const Json& there, const Json& here);

}  // namespace am::train
