// am-run init: writes a plan for a model, a number of GPUs and a purpose, with the fastest layout
// that fits.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/base/number.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/cluster/hardware.h"
#include "am/config/model_names.h"
#include "am/config/write.h"
#include "am/data/paths.h"
#include "am/frameworks/words.h"
#include "am/layout/runs.h"
#include "am/model/config.h"
#include "am/predict/search/least_gpus.h"
#include "am/predict/search/search.h"
#include "common/command_line.h"
#include "common/output.h"
#include "job.h"

namespace am_run {

namespace {

using namespace am;

constexpr const char* kInitDescription =
    "Writes a plan for a model, a number of GPUs and a purpose, with the fastest layout that fits. "
    "A comment above each key explains it.\n\n"
    "Examples:\n"
    "  am-run init --model llama-3.1-8b --gpus 8 --data 'corpus/*.txt' -o plan.toml\n"
    "  am-run init --model meta-llama/Llama-3.2-1B-Instruct --gpus 2 --purpose lora --data "
    "chats.jsonl -o plan.toml";

constexpr int64_t kConversations = 32;  // least number of sequences per step of fine-tuning

struct InitOptions {
  std::string model, gpu = "h100-sxm", purpose = "pretrain", output;
  std::vector<std::string> data;
  int64_t gpus = 0;
  int64_t seq_len = 0;  // 0: the smaller of 4,096 and the model's maximum
  bool force = false;

  // Returns the path of the plan file; "plan.toml" if the plan is printed. Comments in the plan
  // contain this path, and paths in the plan are relative to the folder of the plan file.
  std::string file() const { return output.empty() ? "plan.toml" : output; }
};

// A purpose, and the keys of the plan that it sets, as TOML. base_plan() adds [model], [mesh],
// [cluster] and [data].
struct Purpose {
  std::string_view name;
  bool conversations;  // whether the data are conversations
  std::string_view keys;
};

constexpr std::array<Purpose, 3> kPurposes = {{
    {"pretrain", false,
     "[train]\nmax_steps = 1000\nmax_grad_norm = 1.0\n"
     "[optimizer]\nlr = 3e-4\nbetas = [0.9, 0.95]\nweight_decay = 0.1\n"
     "[scheduler]\nname = \"cosine\"\nwarmup_steps = 100\nmin_lr = 3e-5\n"
     "[checkpoint]\nevery = 500\nkeep = 2\n"},
    {"finetune", true,
     "[train]\nepochs = 3\nmax_grad_norm = 1.0\n"
     "[optimizer]\nlr = 2e-5\nweight_decay = 0.0\n"
     "[scheduler]\nname = \"cosine\"\nwarmup_steps = 20\n"
     "[checkpoint]\nevery = 200\nkeep = 2\nexport = \"hf\"\n"},
    {"lora", true,
     "[lora]\nrank = 16\nalpha = 32\ntarget_modules = [\"all-linear\"]\n"
     "[train]\nepochs = 3\nmax_grad_norm = 1.0\n"
     "[optimizer]\nlr = 2e-4\nweight_decay = 0.0\n"
     "[scheduler]\nname = \"cosine\"\nwarmup_steps = 20\n"
     "[checkpoint]\nevery = 200\nkeep = 2\nexport = \"hf\"\n"},
}};

const Purpose& purpose_named(std::string_view name) {
  return *std::find_if(kPurposes.begin(), kPurposes.end(),
                       [&](const Purpose& purpose) { return purpose.name == name; });
}

// Returns the value of data.kind for the files. Without files, the data are synthetic, so the plan
// can run immediately.
std::string kind_of(const std::vector<std::string>& files, bool conversations) {
  if (files.empty()) return conversations ? "synthetic_chat" : "synthetic";
  if (conversations) return "chat";
  return ends_with(files.front(), ".bin") ? "tokens" : "text";
}

// Returns the plan of the purpose, without a layout. Its paths are relative to the working
// directory, as on the command line. Returns nothing after errors, which are added to `found`
// without a place, because the text is in no file.
std::optional<config::Plan> base_plan(const InitOptions& options, Diagnostics& found) {
  const Purpose& purpose = purpose_named(options.purpose);
  const std::string text = cat(
      "[model]\npath = ", config::toml_text(options.model),
      purpose.conversations ? "\n" : "\nweights = \"none\"\n",
      "[mesh]\nworld_size = ", options.gpus, "\n[cluster]\ngpu = ", config::toml_text(options.gpu),
      "\n[data]\nkind = \"", kind_of(options.data, purpose.conversations), "\"\n",
      options.data.empty() ? std::string()
                           : cat("path = ", config::toml_value(Json(options.data)), "\n"),
      purpose.keys);
  Diagnostics own;
  auto plan =
      config::parse_plan(text, (std::filesystem::current_path() / "plan.toml").string(), {}, own);
  for (Diagnostic item : own.items()) {
    item.span = {};
    found.add(std::move(item));
  }
  return plan;
}

std::string comment_above(const InitOptions& options, const predict::SearchResult& result,
                          const cluster::Gpu& gpu) {
  const predict::FoundLayout& best = result.layouts.front();
  const std::string file = frameworks::shell_word(options.file());
  return cat("# Purpose: ", options.purpose, ". Layout: the fastest of ", result.considered,
             " for ", options.gpus, " x ", frameworks::shell_word(gpu.name), ", of which ",
             result.feasible, " fit.\n", "# Predicted: ", format_bytes(best.peak_bytes), " of ",
             format_bytes(gpu.memory_bytes), " per GPU, ", format_general(best.step_seconds, 3),
             " s per step, ", format_count(static_cast<int64_t>(best.tokens_per_second_per_gpu)),
             " tokens/s per GPU.\n", "#   am-plan check ", file, "     am-run doctor ", file,
             "     am-run ", file, "\n\n");
}

// Throws an error with the reason why the search found no layout.
[[noreturn]] void refuse(const InitOptions& options, const predict::SearchRequest& request,
                         const predict::Calibration& calibration,
                         const predict::SearchResult& result) {
  if (result.smallest_misfit > 0) {
    const auto enough = predict::least_gpus(request, calibration, options.gpus + 1);
    throw Error(ErrorKind::kPlan,
                cat("no layout of the model fits on ", options.gpus, " x ", request.gpu.name),
                enough ? cat(*enough, " GPUs would be enough")
                       : std::string("reduce --seq-len, or choose another --gpu"));
  }
  const auto reason = std::max_element(
      result.dropped.begin(), result.dropped.end(),
      [](const auto& one, const auto& other) { return one.second < other.second; });
  throw Error(ErrorKind::kPlan, "am-run can run none of the model's layouts",
              reason == result.dropped.end() ? std::string() : reason->first);
}

int init(const InitOptions& options, const am_apps::Output& output) {
  Diagnostics found;
  std::optional<config::Plan> base = base_plan(options, found);
  if (!base) return am_apps::refuse(found, output);
  const auto folder = base->resolve(base->model.path);
  if (!std::filesystem::exists(folder)) {
    throw Error(ErrorKind::kPlan, cat("no model is called \"", options.model, "\""),
                config::model_hint(options.model));
  }
  auto model = model::load_config(folder, found);
  auto gpu = cluster::find_gpu(options.gpu, ".", {}, found);
  if (!model || !gpu) return am_apps::refuse(found, output);

  layout::check_runnable(*model, found);
  if (!found.ok()) return am_apps::refuse(found, output);

  predict::SearchRequest request{.model = *std::move(model)};
  request.model_path = base->model.path;
  request.model_name = base->model.named;
  request.gpus = options.gpus;
  request.gpu = *gpu;
  request.gpu_name = options.gpu;
  request.seq_len = options.seq_len > 0 ? options.seq_len : predict::default_seq_len(request.model);
  if (purpose_named(options.purpose).conversations) {
    request.global_batch_size = ceil_div(kConversations, options.gpus) * options.gpus;
  }
  request.top = 1;
  request.runnable = true;
  request.base = std::move(base);
  const predict::Calibration& calibration = predict::default_calibration();
  const predict::SearchResult result = predict::search(request, calibration);
  if (result.layouts.empty()) refuse(options, request, calibration, result);
  const std::string text = comment_above(options, result, *gpu) +
                           config::to_explained_toml(result.layouts.front().plan, options.file());
  try {
    for (const std::string& path : options.data) data::expand_path(path);
  } catch (const Error& error) {
    std::cerr << "warning: " << error.what() << "\n";
  }
  if (options.data.empty()) {
    std::cerr << "note: the plan has synthetic data; name your files with --data, or set data.kind "
                 "and data.path\n";
  }
  am_apps::write_or_print(text, options.output, options.force);
  return am_apps::kFine;
}

}  // namespace

int run_init(int argc, char** argv) {
  InitOptions options;
  am_apps::CommonFlags flags;
  CLI::App app(kInitDescription, "am-run init");
  app.add_option("--model", options.model,
                 "A model's name (llama-3.1-8b, or org/name from the hub's cache), a config.json, "
                 "or its folder")
      ->required();
  app.add_option("--gpus", options.gpus, "How many GPUs")
      ->required()
      ->check(am_apps::integer_from(1));
  app.add_option("--gpu", options.gpu,
                 "GPU: a name in plans/clusters, or the path of such a file (default: h100-sxm)");
  std::vector<std::string> purposes;
  for (const Purpose& purpose : kPurposes) purposes.emplace_back(purpose.name);
  app.add_option("--purpose", options.purpose,
                 "pretrain: from random values, on text; finetune: a model's weights, on "
                 "conversations; lora: adapters, on conversations (default: pretrain)")
      ->check(CLI::IsMember(purposes));
  app.add_option("--data", options.data,
                 "Files, folders or globs: text or tokens (.bin) for pretrain, otherwise "
                 "conversations (default: synthetic data)");
  app.add_option("--seq-len", options.seq_len,
                 "Tokens per sequence (default: 4096, or the model's maximum if it is shorter)")
      ->check(am_apps::integer_of("train.seq_len"));
  app.add_option("-o,--output", options.output, "Write the plan here")->type_name("FILE");
  app.add_flag("--force", options.force, "Overwrite an existing file");
  am_apps::add_color(app, flags);
  if (const auto ended = am_apps::parse(app, argc, argv)) return *ended;
  const auto output = am_apps::Output::of(false, flags.color_mode());
  return am_apps::guarded("am-run init", output, [&] { return init(options, output); });
}

}  // namespace am_run
