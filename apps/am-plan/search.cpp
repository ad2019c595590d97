// am-plan search: prints the best layouts of a model on a given number of GPUs.
#include "am/predict/search/search.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/config/model_names.h"
#include "am/config/write.h"
#include "am/layout/layout.h"
#include "am/layout/precision.h"
#include "am/predict/memory/memory.h"
#include "am/predict/memory/peak_memory.h"
#include "am/predict/time/prediction.h"
#include "am/rules/check.h"
#include "am/term/table.h"
#include "commands.h"
#include "options.h"
#include "plan_input.h"
#include "text.h"

namespace am_plan {
namespace {

struct SearchOptions {
  std::string model;
  int64_t gpus = 0;
  std::string gpu = "h100-sxm";
  int64_t seq_len = 0;            // sequence length; 0: 4096, or the model's limit if that is less
  int64_t global_batch_size = 0;  // sequences per step; 0: predict::default_batch_size() decides
  int64_t top = 10;
  std::string strategy = "fsdp2";
  std::string implementation = "automesh";
  std::string calibration;
  std::string write;
  bool runnable = false;
  std::string goal = "step";
  int64_t hours_between_failures = 0;
  int64_t storage_gb_per_s = 0;
};

using am::predict::FoundLayout;
using am::predict::SearchResult;

am::Json to_json(const FoundLayout& layout) {
  am::Json json = {{"plan", am::config::to_json(layout.plan)},
                   {"peak_bytes", layout.peak_bytes},
                   {"step_seconds", layout.step_seconds},
                   {"mfu", layout.mfu},
                   {"precision", am::layout::resolve_precision(layout.plan).compute},
                   {"tokens_per_second_per_gpu", layout.tokens_per_second_per_gpu},
                   {"bubble_fraction", layout.time.bubble_fraction},
                   {"pareto", layout.pareto},
                   {"runs", layout.runs}};
  if (!layout.why.empty()) json["why"] = layout.why;
  if (layout.goodput) json["goodput"] = *layout.goodput;
  return json;
}

am::Json to_json(const SearchResult& result) {
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
  return json;
}

// Returns a warning if some of the layouts compute in float32, and an empty string otherwise. Their
// times, and their MFU, which refers to the peak FLOP/s of float32, are not comparable with those
// of layouts in bfloat16.
std::string precision_warning(const SearchResult& result) {
  int float32 = 0;
  for (const FoundLayout& layout : result.layouts) {
    float32 += am::layout::resolve_precision(layout.plan).products == "float32" ? 1 : 0;
  }
  if (float32 == 0) return {};
  return am::cat(
      float32 == static_cast<int>(result.layouts.size()) ? "all" : am::cat(float32),
      " of these layouts compute in float32, as ddp and megatron_fsdp have no mp_policy: their "
      "step times and MFU cannot be compared with those of fsdp2 in bfloat16");
}

// Returns how many of the found layouts am-run can run, or an empty string if it can run all.
std::string runs_text(const SearchResult& result, const am::predict::SearchRequest& request) {
  if (request.implementation != &am::cluster::automesh_implementation()) return {};
  const auto runs = std::count_if(result.layouts.begin(), result.layouts.end(),
                                  [](const FoundLayout& layout) { return layout.runs; });
  const auto all = static_cast<int64_t>(result.layouts.size());
  if (runs == all) return {};
  return am::cat("\nThis version of am-run runs ", runs == 0 ? "none" : am::cat(runs), " of these ",
                 all, "; --runnable shows only those that it runs.\n");
}

// Returns the plan's strategy and compute format, for example "fsdp2 in bfloat16".
std::string strategy_text(const am::config::Plan& plan) {
  return am::cat(am::config::strategy_name(plan.strategy), " in ",
                 am::layout::resolve_precision(plan).compute);
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
std::string options_text(const am::config::Plan& plan, bool names_strategy) {
  std::vector<std::string> parts;
  if (names_strategy) parts.push_back(strategy_text(plan));
  if (const auto* fsdp2 = std::get_if<am::config::FSDP2Config>(&plan.strategy)) {
    using Checkpointing = am::config::ActivationCheckpointing;
    if (fsdp2->sequence_parallel) parts.emplace_back("SP");
    if (fsdp2->activation_checkpointing == Checkpointing::kFull) parts.emplace_back("full AC");
    if (fsdp2->activation_checkpointing == Checkpointing::kSelective) {
      parts.emplace_back("selective AC");
    }
    if (!fsdp2->defer_fsdp_grad_sync) parts.emplace_back("reduces each micro-batch");
  }
  if (plan.checkpoint.every > 0) parts.push_back(am::cat("saves every ", plan.checkpoint.every));
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
               am::predict::step_time_text(layout.step_seconds),
               am::format_fixed(100.0 * share, 1) + " %", am::format_bytes(layout.peak_bytes),
               options_text(layout.plan, names_strategy), layout.why});
  }
  return table.text(style);
}

// Returns the message for a search that found no layout. If memory is the reason, it states by how
// much the smallest layout exceeds the GPU's memory.
std::string no_layout_text(const SearchResult& result, const am::predict::SearchRequest& request) {
  if (result.smallest_misfit == 0) return "No layout fits.\n";
  const double room = am::predict::usable_bytes(*request.implementation, request.gpu);
  const auto text = [](double bytes) { return am::format_bytes(static_cast<int64_t>(bytes)); };
  return am::cat(
      "No layout fits: the smallest needs ", text(static_cast<double>(result.smallest_misfit)),
      " per rank, but of the ", text(request.gpu.memory_bytes), " of ", request.gpu.name,
      " a layout may use only ", text(room),
      ", to leave room for the error of predictions. With more GPUs a rank needs less.\n");
}

std::string report(const SearchResult& result, const am::predict::SearchRequest& request,
                   const am::term::Style& style) {
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
    text += no_layout_text(result, request);
  }
  if (result.dropped.empty()) return text;
  am::term::Table dropped(
      {{"dropped", am::term::Align::kRight}, {"because", am::term::Align::kWrap}});
  for (const auto& [reason, count] : result.dropped) dropped.add({am::cat(count), reason});
  return text + "\n" + dropped.text(style);
}

void require_rates(const SearchOptions& options) {
  const bool rates = options.hours_between_failures > 0 && options.storage_gb_per_s > 0;
  if (rates == (options.goal == "goodput")) return;
  throw am::Error(
      am::ErrorKind::kUsage,
      "--goal goodput, --hours-between-failures and --storage-gb-per-s must be given together",
      "am-plan search --goal goodput --hours-between-failures 50700 "
      "--storage-gb-per-s 100 ...");
}

int run_search(const SearchOptions& options, const Output& output) {
  require_rates(options);
  am::Diagnostics found;
  const std::filesystem::path model_path = am::config::model_path(options.model);
  const auto model = am::model::load_config(model_path, found);
  if (!model) return am_apps::refuse(found, output);
  const auto* implementation = am::cluster::find_implementation(options.implementation);
  if (implementation == nullptr) {
    throw am::Error(am::ErrorKind::kUsage,
                    am::cat("--implementation ", options.implementation, " is not known"),
                    "`am-plan explain cluster.implementation`");
  }
  am::predict::Calibration calibration = am::predict::default_calibration();
  if (!options.calibration.empty()) {
    auto own = am::predict::load_calibration(options.calibration, {}, found);
    if (own) calibration = *std::move(own);
  }
  auto gpu = am::cluster::find_gpu(options.gpu, ".", {}, found);
  if (!gpu || !found.ok()) return am_apps::refuse(found, output);
  am_apps::print_diagnostics(found, output);

  am::predict::SearchRequest request{.model = *model};
  request.model_path = std::filesystem::absolute(model_path).lexically_normal().string();
  request.gpus = options.gpus;
  request.gpu = *std::move(gpu);
  request.gpu_name = options.gpu;
  request.seq_len =
      options.seq_len > 0
          ? options.seq_len
          : std::min<int64_t>(4096, std::max<int64_t>(1, model->max_position_embeddings));
  request.global_batch_size = options.global_batch_size;
  request.strategy = options.strategy;
  request.implementation = implementation;
  request.calibration = options.calibration;
  request.top = options.top;
  request.runnable = options.runnable;
  request.hours_between_failures = static_cast<double>(options.hours_between_failures);
  request.storage_gb_per_s = static_cast<double>(options.storage_gb_per_s);
  const SearchResult result = am::predict::search(request, calibration);
  const std::string warning = precision_warning(result);
  if (output.json) {
    am::Json json = to_json(result);
    if (!warning.empty()) json["warnings"] = am::Json::array({warning});
    am_apps::print(json);
  } else {
    print_folded(report(result, request, output.out), output.out);
    if (!warning.empty()) {
      std::cerr << output.err.paint(am::term::Role::kWarning, "warning") << ": " << warning << "\n";
    }
  }
  if (result.layouts.empty()) return am_apps::kInvalid;
  if (!options.write.empty()) {
    // Both the model and the plan can be moved together if --model was relative.
    const std::string seen = model_seen_from(options.write, options.model);
    am::write_file_atomically(options.write,
                              am::config::to_short_toml(result.layouts.front().plan, seen));
  }
  return am_apps::kFine;
}

Run declare_search(CLI::App& command, SharedOptions& shared) {
  auto options = std::make_shared<SearchOptions>();
  add_option(
      command,
      {"--model", "CONFIG",
       "A Hugging Face config.json, its folder, or a model's name: llama-3.1-8b, or org/name "
       "from the hub's cache",
       kRequired},
      options->model);
  add_option(command, {"--gpus", "N", "How many GPUs", kRequired}, options->gpus);
  add_option(command,
             {"--gpu", "NAME",
              "GPU: a name in plans/clusters, or the path of such a file (default: h100-sxm)"},
             options->gpu);
  add_option(command,
             {"--seq-len", "S",
              "Tokens per sequence (default: 4096, or the model's maximum if it is shorter)"},
             options->seq_len);
  add_option(command,
             {"--global-batch-size", "B", "Sequences per step (default: about 4 Mi tokens)"},
             options->global_batch_size);
  add_option(command, {"--top", "K", "How many layouts to show (default: 10)"}, options->top);
  add_option(command,
             {.name = "--strategy",
              .value = "NAME",
              .help = "Data-parallel strategy",
              .choices = {"fsdp2", "megatron_fsdp", "ddp", "all"}},
             options->strategy);
  add_option(command,
             {"--implementation", "NAME",
              "Framework that runs the step: automesh, torchtitan, megatron, ..."},
             options->implementation);
  add_option(command,
             {"--calibration", "FILE",
              "A file with constants of the time model, written by scripts/calibrate"},
             options->calibration);
  add_output_file(command, shared,
                  {"--write", "FILE", "Write the first layout as a plan to this file"},
                  options->write);
  add_option(command,
             {.name = "--goal",
              .value = "GOAL",
              .help = "Sort by step time, or by goodput after failures",
              .choices = {"step", "goodput"}},
             options->goal);
  add_option(command, {"--hours-between-failures", "H", "Mean hours until one GPU fails"},
             options->hours_between_failures);
  add_option(command,
             {"--storage-gb-per-s", "R", "GB/s at which all ranks together write checkpoints"},
             options->storage_gb_per_s);
  add_flag(command, "--runnable", "Only layouts that this version of am-run can run",
           options->runnable);
  add_json(command, shared);
  return [options](const Output& output) { return run_search(*options, output); };
}

}  // namespace

const Command kSearchCommand = {
    .name = "search",
    .summary = "Find the fastest layouts of a model on a number of GPUs",
    .example = "am-plan search --model plans/models/llama-3.1-8b --gpus 8 --runnable",
    .declare = declare_search,
};

}  // namespace am_plan
