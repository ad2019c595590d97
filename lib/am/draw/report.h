// One self-contained HTML page on a plan: mesh, memory, time, the pipeline's timeline, shards, and
// the Pareto front of a search. No scripts, no fonts, no links: it can be mailed and opened
// anywhere.
//
//   write_file_atomically("plan.html", html_report({plan, model, layout, memory, prediction}));
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/planner/cost/prediction.h"
#include "am/planner/layout.h"
#include "am/planner/memory.h"
#include "am/planner/search.h"

namespace am::draw {

struct ReportInput {
  const config::Plan& plan;
  const model::ModelConfig& model;
  const planner::Layout& layout;
  const std::vector<planner::RankMemory>& stages;  // the worst rank of each pipeline position
  const planner::Prediction& prediction;
  const planner::SearchResult* search = nullptr;  // null: without the Pareto front
  std::string timeline_svg;                       // empty: no pipeline
};
std::string html_report(const ReportInput& input);

}  // namespace am::draw
