// A self-contained HTML page about a plan: its mesh, predicted memory and time, the timeline of its
// pipeline, its shards, and the Pareto front of a search. The page needs no scripts, fonts or other
// files, and can therefore be mailed and opened anywhere.
//
//   write_file_atomically("plan.html", html_report({plan, model, layout, memory, prediction}));
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/model/config.h"
#include "am/predict/memory/memory.h"
#include "am/predict/search/search.h"
#include "am/predict/time/prediction.h"

namespace am::draw {

struct ReportInput {
  const config::Plan& plan;
  const model::ModelConfig& model;
  const layout::Layout& layout;
  // For each index along pp, the memory of the rank with the largest peak.
  const std::vector<predict::RankMemory>& stages;
  const predict::Prediction& prediction;
  // Result of a search. The page has no Pareto front if `search` is null or found no layout.
  const predict::SearchResult* search = nullptr;
  std::string timeline_svg;  // the timeline of the pipeline; empty without a pipeline
};
std::string html_report(const ReportInput& input);

}  // namespace am::draw
