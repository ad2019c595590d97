// am-plan search: prints the best layouts of a model on a given number of GPUs.
#include "am/predict/search/search.h"

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "am/base/file.h"
#include "am/config/write.h"
#include "am/predict/search/least_gpus.h"
#include "commands.h"
#include "options.h"
#include "plan_input.h"
#include "search_report.h"
#include "search_request.h"
#include "text.h"

namespace am_plan {
namespace {

int run_search(const SearchOptions& options, const PlanOptions& plan, const Output& output) {
  am::Diagnostics found;
  auto made = request_of(options, plan, found);
  if (!made) return am_apps::refuse(found, output);
  am::predict::SearchRequest& request = *made;
  am::predict::Calibration calibration = am::predict::default_calibration();
  if (!request.calibration.empty()) {
    const std::string file =
        request.base ? request.base->resolve(request.calibration).string() : request.calibration;
    auto own = am::predict::load_calibration(file, {}, found);
    if (own) calibration = *std::move(own);
  }
  if (!found.ok()) return am_apps::refuse(found, output);
  am_apps::print_diagnostics(found, output);
  if (options.min_gpus) {
    const auto least = am::predict::least_gpus(request, calibration, 1);
    if (!least) {
      throw am::Error(am::ErrorKind::kPlan, "no layout fits on 32 768 GPUs or fewer",
                      "reduce --seq-len or --headroom, or allow more sizes with --tp, --pp, --cp "
                      "and --ep");
    }
    request.gpus = *least;
  }
  const am::predict::SearchResult result = am::predict::search(request, calibration);
  std::optional<int64_t> enough;
  if (result.layouts.empty() && result.smallest_misfit > 0) {
    enough = am::predict::least_gpus(request, calibration, request.gpus + 1);
  }
  if (output.json) {
    am_apps::print(search_json(result, request, enough));
  } else {
    print_folded(search_text(result, request, enough, output.out), output.out);
    const std::string warning = precision_warning(result);
    if (!warning.empty()) {
      std::cerr << output.err.paint(am::term::Role::kWarning, "warning") << ": " << warning << "\n";
    }
  }
  if (result.layouts.empty()) return am_apps::kInvalid;
  if (!options.write.empty()) {
    am::write_file_atomically(
        options.write, am::config::to_short_toml(result.layouts.front().plan, options.write));
  }
  return am_apps::kFine;
}

Run declare_search(CLI::App& command, SharedOptions& shared) {
  auto options = std::make_shared<SearchOptions>();
  add_optional_plan(command, shared,
                    "A plan: the layouts keep its model, batch, optimizer and other keys");
  add_option(command,
             {"--fix", "KEYS", "Keep the plan's values of these keys, such as mesh.tp_size"},
             options->fixed);
  add_option(
      command,
      {"--model", "CONFIG",
       "A Hugging Face config.json, its folder, or a model's name: llama-3.1-8b, or org/name "
       "from the hub's cache"},
      options->model);
  add_option(command, {"--gpus", "N", "How many GPUs"}, options->gpus);
  add_flag(command, "--min-gpus", "Search on the smallest number of GPUs on which a layout fits",
           options->min_gpus);
  add_option(command, {"--tp", "SIZES", "Sizes of tensor parallelism to try, such as 1,2,4"},
             options->tp);
  add_option(command, {"--pp", "SIZES", "Numbers of pipeline stages to try"}, options->pp);
  add_option(command, {"--cp", "SIZES", "Sizes of context parallelism to try"}, options->cp);
  add_option(command, {"--ep", "SIZES", "Sizes of expert parallelism to try"}, options->ep);
  add_option(command,
             {"--precision", "LIST",
              "Precisions of matrix products to try: bf16, or recipes of strategy.fp8, such as "
              "bf16,delayed,mxfp8"},
             options->precision);
  add_option(command,
             {"--headroom", "F", "Fraction of a GPU's memory that must stay free, such as 0.1"},
             options->headroom);
  add_option(command,
             {"--gpu", "NAME",
              "GPU: a name in plans/clusters, or the path of such a file (default: the plan's, or "
              "h100-sxm)"},
             options->gpu);
  add_option(command,
             {.name = "--seq-len",
              .value = "S",
              .help = "Tokens per sequence (default: the plan's, or 4096, or the model's maximum "
                      "if it is shorter)",
              .key = "train.seq_len"},
             options->seq_len);
  add_option(command,
             {.name = "--global-batch-size",
              .value = "B",
              .help = "Sequences per step (default: the plan's, or about 4 Mi tokens)",
              .key = "train.global_batch_size"},
             options->global_batch_size);
  add_option(command, {"--top", "K", "How many layouts to show (default: 10)"}, options->top);
  add_option(command,
             {.name = "--strategy",
              .value = "NAME",
              .help = "Data-parallel strategy",
              .choices = {"fsdp2", "megatron_fsdp", "ddp", "megatron", "all"}},
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
  add_option(command, {"--hours-between-failures", "H", "Mean hours between failures of one GPU"},
             options->hours_between_failures);
  add_option(command,
             {"--storage-gb-per-s", "R", "GB/s at which all ranks together write checkpoints"},
             options->storage_gb_per_s);
  add_flag(command, "--runnable", "Only layouts that this version of am-run can run",
           options->runnable);
  add_json(command, shared);
  return [options, &shared](const Output& output) {
    return run_search(*options, shared.plan, output);
  };
}

}  // namespace

const Command kSearchCommand = {
    .name = "search",
    .summary = "Find the fastest layouts of a model on a number of GPUs",
    .example =
        "am-plan search --model llama-3.1-8b --gpus 8 --runnable\n"
        "  am-plan search plan.toml --gpus 16 --fix mesh.tp_size",
    .declare = declare_search,
};

}  // namespace am_plan
