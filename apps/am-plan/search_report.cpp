#include "search_report.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/config/write.h"
#include "am/layout/layout.h"
#include "am/layout/precision.h"
#include "am/predict/memory/memory.h"
#include "am/predict/memory/peak_memory.h"
#include "am/predict/time/prediction.h"
#include "am/term/table.h"

namespace am_plan {

using am::predict::FoundLayout;
using am::predict::SearchResult;

namespace {

// Returns the plan's recipe for products in FP8. Without a recipe, returns the dtype in which the
// plan computes.
std::string precision_text(const am::config::Plan& plan) {
  const am::config::Fp8RecipeSpec& recipe = am::config::spec_of(am::config::fp8_of(plan.strategy));
  if (recipe.recipe != am::config::Fp8Recipe::kNone) return std::string(recipe.name);
  return am::layout::resolve_precision(plan).compute;
}

am::Json to_json(const FoundLayout& layout) {
  am::Json json = {{"plan", am::config::to_json(layout.plan)},
                   {"peak_bytes", layout.peak_bytes},
                   {"step_seconds", layout.step_seconds},
                   {"mfu", layout.mfu},
                   {"precision", precision_text(layout.plan)},
                   {"tokens_per_second_per_gpu", layout.tokens_per_second_per_gpu},
                   {"bubble_fraction", layout.time.bubble_fraction},
                   {"pareto", layout.pareto},
                   {"runs", layout.runs}};
  if (!layout.why.empty()) json["why"] = layout.why;
  if (layout.goodput) json["goodput"] = *layout.goodput;
  return json;
}

// Returns a sentence that states how many of the found layouts am-run can run. Returns an empty
// string if am-run can run all layouts, or if the search is for another implementation.
std::string runs_text(const SearchResult& result, const am::predict::SearchRequest& request) {
  if (request.implementation != &am::cluster::automesh_implementation()) return {};
  const auto runs = std::count_if(result.layouts.begin(), result.layouts.end(),
                                  [](const FoundLayout& layout) { return layout.runs; });
  const auto all = static_cast<int64_t>(result.layouts.size());
  if (runs == all) return {};
  return am::cat("\nThis version of am-run runs ", runs == 0 ? "none" : am::cat(runs), " of these ",
                 all, "; --runnable shows only those that it runs.\n");
}

// Returns the plan's strategy and precision, for example "fsdp2 in bfloat16".
std::string strategy_text(const am::config::Plan& plan) {
  return am::cat(am::config::strategy_name(plan.strategy), " in ", precision_text(plan));
}

// Returns the strategy text that all layouts have in common, or an empty string.
std::string common_strategy(const SearchResult& result) {
  std::string first = strategy_text(result.layouts.front().plan);
  for (const auto* layouts : {&result.layouts, &result.pareto}) {
    for (const FoundLayout& layout : *layouts) {
      if (strategy_text(layout.plan) != first) return {};
    }
  }
  return first;
}

// Returns the plan's options in short, for example "SP, selective AC, 1f1b" (sequence parallelism,
// activation checkpointing, pipeline schedule).
std::string options_text(const am::config::Plan& plan, bool names_strategy, bool names_saves) {
  std::vector<std::string> parts;
  if (names_strategy) parts.push_back(strategy_text(plan));
  const auto* fsdp2 = std::get_if<am::config::FSDP2Config>(&plan.strategy);
  const auto* megatron = std::get_if<am::config::MegatronConfig>(&plan.strategy);
  if (fsdp2 != nullptr || megatron != nullptr) {
    using Checkpointing = am::config::ActivationCheckpointing;
    const Checkpointing mode = am::config::checkpointing_of(plan.strategy);
    if (am::config::sequence_parallel(plan.strategy)) parts.emplace_back("SP");
    if (mode == Checkpointing::kFull) parts.emplace_back("full AC");
    if (mode == Checkpointing::kSelective) {
      parts.push_back(megatron == nullptr
                          ? "selective AC"
                          : am::cat("AC of ", am::join(megatron->recompute_modules, " + ")));
    }
    if (mode == Checkpointing::kMlp) parts.emplace_back("MLP AC");
  }
  if (fsdp2 != nullptr && !fsdp2->defer_fsdp_grad_sync) {
    parts.emplace_back("reduces each micro-batch");
  }
  if (megatron != nullptr && megatron->etp_size > 0) {
    parts.push_back(am::cat("etp ", megatron->etp_size));
  }
  if (names_saves) parts.push_back(am::cat("saves every ", plan.checkpoint.every));
  if (plan.mesh.pp_size > 1) {
    const int64_t stages = plan.pipeline.virtual_stages;
    parts.push_back(
        am::cat(plan.pipeline.schedule, stages > 1 ? am::cat(" x", stages) : std::string()));
  }
  return am::join(parts, ", ");
}

std::string layouts_table(const std::vector<FoundLayout>& layouts, const char* title,
                          bool names_strategy, const am::term::Style& style) {
  const bool goodput = !layouts.empty() && layouts.front().goodput.has_value();
  am::term::Table table({{title, am::term::Align::kWrap},
                         {"mbs", am::term::Align::kRight},
                         {"step", am::term::Align::kRight},
                         {goodput ? "goodput" : "MFU", am::term::Align::kRight},
                         {"peak", am::term::Align::kRight},
                         {"options", am::term::Align::kWrap},
                         {"beats the next by", am::term::Align::kWrap}});
  for (const FoundLayout& layout : layouts) {
    const double share = layout.goodput.value_or(layout.mfu);
    am::Diagnostics ignored;
    const auto mesh = am::layout::resolve_mesh(layout.plan, 0, ignored);
    std::string axes;
    for (const am::mesh::Axis axis : am::mesh::kAxes) {
      if (mesh && mesh->size(axis) > 1) {
        axes += am::cat(axes.empty() ? "" : " ", am::mesh::to_string(axis), " ", mesh->size(axis));
      }
    }
    if (mesh && mesh->ep > 1) axes += am::cat(" ep ", mesh->ep);
    table.add({axes.empty() ? "1 rank" : axes, am::cat(layout.plan.train.micro_batch_size),
               am::format_step_time(layout.step_seconds), am::format_fixed(100.0 * share, 1) + " %",
               am::format_bytes(layout.peak_bytes),
               options_text(layout.plan, names_strategy, goodput), layout.why});
  }
  return table.text(style);
}

// Returns the message for a search that found no layout. If memory is the reason, the message
// states how much memory the smallest layout needs, and how much of the GPU's memory a layout may
// use.
std::string no_layout_text(const SearchResult& result, const am::predict::SearchRequest& request,
                           std::optional<int64_t> enough) {
  if (result.considered == 0) return "No layout has the given sizes and fixed values (--fix).\n";
  if (result.smallest_misfit == 0) return "Every layout violates a rule.\n";
  const double room = am::predict::usable_bytes(*request.implementation, request.usable_gpu());
  const auto text = [](double bytes) { return am::format_bytes(static_cast<int64_t>(bytes)); };
  return am::cat(
      "No layout fits: the smallest needs ", text(static_cast<double>(result.smallest_misfit)),
      " per rank, but a layout may use only ", text(room), " of the ",
      text(request.gpu.memory_bytes), " of ", request.gpu.name, ": the rest is kept free for ",
      request.headroom > 0.0 ? "--headroom and " : "", "the error of predictions. ",
      enough ? am::cat("With ", *enough, " GPUs a layout fits.")
             : "No layout fits on 32 768 GPUs or fewer.",
      "\n");
}

}  // namespace

std::string precision_warning(const SearchResult& result) {
  int float32 = 0;
  for (const FoundLayout& layout : result.layouts) {
    float32 += am::layout::resolve_precision(layout.plan).products == "float32" ? 1 : 0;
  }
  if (float32 == 0) return {};
  return am::cat(float32 == static_cast<int>(result.layouts.size()) ? "all" : am::cat(float32),
                 " of these layouts compute in float32, the default of ddp and megatron_fsdp: "
                 "their step times and MFU cannot be compared with those of fsdp2 in bfloat16");
}

am::Json search_json(const SearchResult& result, const am::predict::SearchRequest& request,
                     std::optional<int64_t> enough) {
  am::Json json = am::Json::object();
  json["layouts"] = am::Json::array();
  for (const FoundLayout& layout : result.layouts) json["layouts"].push_back(to_json(layout));
  json["pareto"] = am::Json::array();
  for (const FoundLayout& layout : result.pareto) json["pareto"].push_back(to_json(layout));
  json["considered"] = result.considered;
  json["feasible"] = result.feasible;
  if (result.layouts.empty() && result.smallest_misfit > 0) {
    json["smallest_bytes"] = result.smallest_misfit;
  }
  json["dropped"] = am::Json::object();
  for (const auto& [reason, count] : result.dropped) json["dropped"][reason] = count;
  json["seconds"] = result.seconds;
  json["gpus"] = request.gpus;
  if (result.layouts.empty()) json["enough_gpus"] = enough ? am::Json(*enough) : am::Json();
  const std::string warning = precision_warning(result);
  if (!warning.empty()) json["warnings"] = am::Json::array({warning});
  return json;
}

std::string search_text(const SearchResult& result, const am::predict::SearchRequest& request,
                        std::optional<int64_t> enough, const am::term::Style& style) {
  std::string text =
      am::cat(request.gpus, " x ", request.gpu.name, ", ", result.batch, " sequences of ",
              request.seq_len, " tokens per step; ", result.considered, " layouts considered, ",
              result.feasible, " fit, in ", am::format_duration(result.seconds), "\n\n");
  if (!result.layouts.empty()) {
    const std::string common = common_strategy(result);
    if (!common.empty()) text += am::cat("All are ", common, ".\n\n");
    text += layouts_table(result.layouts, "fastest", common.empty(), style);
    text += runs_text(result, request);
    text += "\n" + layouts_table(result.pareto, "smallest, then faster", common.empty(), style);
  } else {
    text += no_layout_text(result, request, enough);
  }
  if (result.dropped.empty()) return text;
  am::term::Table dropped(
      {{"dropped", am::term::Align::kRight}, {"because", am::term::Align::kWrap}});
  for (const auto& [reason, count] : result.dropped) dropped.add({am::cat(count), reason});
  return text + "\n" + dropped.text(style);
}

}  // namespace am_plan
