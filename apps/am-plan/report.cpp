// am-plan report PLAN -o plan.html: writes one HTML page with the plan's mesh, predicted memory and
// time, pipeline timeline, shards, and other layouts.
#include "am/draw/report.h"

#include <memory>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/draw/timeline_svg.h"
#include "am/layout/stages.h"
#include "am/pipeline/timeline.h"
#include "am/predict/memory/stage_memory.h"
#include "commands.h"
#include "plan_input.h"

namespace am_plan {
namespace {

std::string timeline_of(const PlanInput& input) {
  const am::mesh::MeshSizes& sizes = input.layout.mesh.sizes();
  const int64_t pp = sizes.pp;
  if (pp == 1) return {};
  const auto shape = am::layout::pipeline_shape(input.plan, pp, sizes.dp());
  const auto schedule = am::pipeline::make_schedule(shape);
  return am::draw::timeline_svg(
      am::pipeline::simulate(schedule, am::pipeline::Durations::even(schedule.stages(), pp)),
      schedule.name);
}

am::predict::SearchResult other_layouts(const PlanInput& input,
                                        const am::predict::Prediction& prediction) {
  am::predict::SearchRequest request{.model = input.model};
  request.model_path = input.plan.model.path;
  request.gpus = input.layout.mesh.world_size();
  request.gpu = prediction.assumptions.gpu;
  request.gpu_name = input.plan.cluster.gpu;
  request.seq_len = input.plan.train.seq_len;
  request.global_batch_size = input.plan.train.global_batch_size;
  request.implementation = prediction.workload.implementation;
  request.strategy = am::config::strategy_name(input.plan.strategy);
  request.top = 1;
  request.base = input.plan;
  return am::predict::search(request, prediction.assumptions.calibration);
}

int run_report(const PlanOptions& plan, const std::string& page, const Output& output) {
  constexpr int kNearest = 5;
  int status = am_apps::kFine;
  const auto input = load_input(plan, output, status);
  if (!input.has_value()) return status;
  am::Diagnostics found;
  const auto prediction =
      am::predict::predict_step(input->plan, input->model, input->layout, kNearest, found);
  if (!prediction) return am_apps::refuse(found, output);
  const auto stages = am::predict::memory_of_stages(input->plan, input->model, input->layout);
  const auto search = other_layouts(*input, *prediction);
  am::write_file_atomically(page, am::draw::html_report({.plan = input->plan,
                                                         .model = input->model,
                                                         .layout = input->layout,
                                                         .stages = stages,
                                                         .prediction = *prediction,
                                                         .search = &search,
                                                         .timeline_svg = timeline_of(*input)}));
  if (output.json) {
    am_apps::print(am::Json{{"written", page}});
  } else {
    am_apps::print(am::cat("written: ", page, "\n"));
  }
  return am_apps::kFine;
}

Run declare_report(CLI::App& command, SharedOptions& shared) {
  auto page = std::make_shared<std::string>("plan.html");
  add_plan(command, shared);
  add_output(command, shared, "The HTML file (default: plan.html)", *page);
  return [page, &shared](const Output& output) { return run_report(shared.plan, *page, output); };
}

}  // namespace

const Command kReportCommand = {
    .name = "report",
    .summary = "Write one HTML page on a plan: mesh, memory, time, shards",
    .example = "am-plan report plan.toml -o plan.html",
    .declare = declare_report,
};

}  // namespace am_plan
