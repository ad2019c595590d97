// am-plan cost PLAN: prints the predicted time of a step and the parts that add up to it.
#include <algorithm>
#include <cmath>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/model/flops.h"
#include "am/predict/time/evidence.h"
#include "am/predict/time/goodput.h"
#include "am/predict/time/prediction.h"
#include "am/term/bars.h"
#include "am/term/printable.h"
#include "am/term/table.h"
#include "am/term/wrap.h"
#include "commands.h"
#include "plan_input.h"
#include "text.h"

namespace am_plan {
namespace {

using am::predict::NearestRun;
using am::predict::Prediction;
using am::predict::StepTime;

struct Part {
  const char* name;
  double seconds;
  const char* why;
};

std::vector<Part> parts_of(const StepTime& time) {
  return {
      {"products", time.products, "matrix products"},
      {"attention", time.attention, "scores and values"},
      {"memory_bound", time.memory_bound, "norms, activations, the loss"},
      {"launching", time.launching, "kernels too small to fill the GPU"},
      {"tp", time.tp, "exposed collectives of tensor parallelism"},
      {"cp", time.cp, "exposed exchange of keys and values"},
      {"ep", time.ep, "exposed all-to-all to experts"},
      {"pp", time.pp, "exposed transfers between stages"},
      {"bubble", time.bubble, "waiting for other stages"},
      {"dp", time.dp, "exposed gathers and reductions"},
      {"offload", time.offload, "exposed copies from and to the host"},
      {"optimizer", time.optimizer, "the update"},
      {"fixed", time.fixed, "fixed time per step, and stragglers"},
  };
}

struct Convention {
  const char* name;
  double (*flops)(const am::model::ModelConfig& config, int64_t seq_len);
};
constexpr std::array<Convention, 5> kConventions = {{
    {"torchtitan", am::model::torchtitan_flops_per_token},
    {"palm", am::model::palm_flops_per_token},
    {"megatron_bridge", am::model::megatron_bridge_flops_per_token},
    {"nvidia", am::model::nvidia_flops_per_token},
    {"korthikanti", am::model::korthikanti_flops_per_token},
}};

double mfu_of(const Prediction& prediction, double flops) {
  return flops * prediction.tokens_per_second_per_gpu /
         am::predict::peak_flops(prediction.workload.format, prediction.assumptions.gpu);
}

// Returns the number format whose peak FLOP/s the prediction uses, for example "bf16". If the
// workload computes in another format, appends the reason: the GPU lacks that format.
std::string peak_text(const Prediction& prediction) {
  const am::cluster::Gpu& gpu = prediction.assumptions.gpu;
  const auto format = am::predict::peak_format(prediction.workload.format, gpu);
  const std::string_view name = am::predict::name_of(format);
  if (format == prediction.workload.format) return std::string(name);
  return am::cat(name, " (", gpu.name, " has no ", am::predict::name_of(prediction.workload.format),
                 ")");
}

int64_t global_batch(const am::predict::Workload& workload) {
  return std::llround(workload.micro_batch * workload.micro_batches * workload.dp());
}

am::Json to_json(const NearestRun& near) {
  return {{"id", near.run.id},
          {"source", near.run.source},
          {"model", near.run.model},
          {"gpu", near.run.gpu.name},
          {"ranks", static_cast<int64_t>(near.run.workload.world())},
          {"precision", am::predict::name_of(near.run.workload.format)},
          {"seq_len", static_cast<int64_t>(near.run.workload.sequence)},
          {"global_batch_size", global_batch(near.run.workload)},
          {"step_seconds", *near.run.seconds},
          {"predicted_seconds", near.predicted},
          {"distance", near.distance}};
}

std::optional<am::predict::JobForecast> forecast_of(const PlanInput& input,
                                                    const Prediction& prediction) {
  return am::predict::forecast(input.plan, input.layout, prediction.assumptions.gpu,
                               prediction.time.seconds, input.plan.train.max_steps);
}

am::Json to_json(const am::predict::JobForecast& job, int64_t ranks) {
  const double hours = job.seconds / 3600.0;
  return {{"seconds_between", job.losses.between_failures},
          {"restart_seconds", job.losses.restart},
          {"save_seconds", job.losses.save},
          {"checkpoint_bytes", static_cast<int64_t>(std::llround(job.losses.checkpoint_bytes))},
          {"checkpoint_every", job.planned.steps},
          {"best_checkpoint_every", job.best.steps},
          {"best_goodput", job.best.goodput},
          {"hours", hours},
          {"gpu_hours", hours * static_cast<double>(ranks)}};
}

am::Json result(const PlanInput& input, const Prediction& prediction) {
  const StepTime& time = prediction.time;
  const auto bytes = [](double value) { return static_cast<int64_t>(std::llround(value)); };
  am::Json json = am::Json::object();
  json["step_seconds"] = time.seconds;
  json["interval_seconds"] = nullptr;
  if (prediction.interval) {
    json["interval_seconds"] = {prediction.interval->low, prediction.interval->high};
  }
  if (!prediction.basis.empty()) json["basis"] = prediction.basis;
  json["precision"] = am::predict::name_of(prediction.workload.format);
  json["tokens_per_second_per_gpu"] = prediction.tokens_per_second_per_gpu;
  json["model_flops_per_token"] = prediction.flops_per_token;
  json["mfu"] = prediction.mfu;
  json["mfu_peak"] = am::predict::name_of(
      am::predict::peak_format(prediction.workload.format, prediction.assumptions.gpu));
  for (const Convention& convention : kConventions) {
    const double flops = convention.flops(input.model, input.plan.train.seq_len);
    json["mfu_by_convention"][convention.name] = mfu_of(prediction, flops);
  }
  json["bubble_fraction"] = time.bubble_fraction;
  json["communication"] = {{"tp", bytes(time.bytes.tp)},
                           {"cp", bytes(time.bytes.cp)},
                           {"ep", bytes(time.bytes.ep)},
                           {"pp", bytes(time.bytes.pp)},
                           {"dp", bytes(time.bytes.dp)}};
  if (const auto job = forecast_of(input, prediction)) {
    json["goodput"] = job->planned.goodput;
    json["failures"] = to_json(*job, input.layout.mesh.world_size());
  }
  for (const Part& part : parts_of(time)) json["seconds"][part.name] = part.seconds;
  json["gpu"] = prediction.assumptions.gpu.name;
  json["implementation"] = std::string(prediction.workload.implementation->name);
  json["nearest_runs"] = am::Json::array();
  for (const NearestRun& near : prediction.nearest) json["nearest_runs"].push_back(to_json(near));
  return json;
}

std::string percent(double share) { return am::format_fixed(100.0 * share, 1) + " %"; }

// Returns the footnote number, from 1, of a source of measured runs. Appends a source that
// `sources` does not contain yet.
size_t number_of(const std::string& source, std::vector<std::string>& sources) {
  const auto known = std::find(sources.begin(), sources.end(), source);
  const auto number = static_cast<size_t>(known - sources.begin()) + 1;
  if (known == sources.end()) sources.push_back(source);
  return number;
}

std::string nearest_table(const Prediction& prediction, const am::term::Style& style) {
  am::term::Table table({{"nearest runs", am::term::Align::kWrap},
                         {"gpu", am::term::Align::kWrap},
                         {"ranks", am::term::Align::kRight},
                         {"in", am::term::Align::kWrap},
                         {"seq", am::term::Align::kRight},
                         {"batch", am::term::Align::kRight},
                         {"measured", am::term::Align::kRight},
                         {"predicted", am::term::Align::kRight},
                         {""}});
  std::vector<std::string> sources;
  for (const NearestRun& near : prediction.nearest) {
    const double error = near.predicted / *near.run.seconds - 1.0;
    table.add({near.run.model.substr(0, 28), near.run.gpu.name,
               am::cat(static_cast<int64_t>(near.run.workload.world())),
               std::string(am::predict::name_of(near.run.workload.format)),
               am::cat(static_cast<int64_t>(near.run.workload.sequence)),
               am::cat(global_batch(near.run.workload)), am::format_step_time(*near.run.seconds),
               am::cat(am::format_step_time(near.predicted), error < 0 ? " (-" : " (+",
                       am::format_fixed(std::abs(100.0 * error), 0), " %)"),
               am::cat("[", number_of(near.run.source, sources), "]")});
  }
  std::string text = table.text(style);
  for (size_t i = 0; i < sources.size(); ++i) {
    text += am::cat("[", i + 1, "] ", am::term::printable(sources[i]), "\n");
  }
  return text;
}

std::string interval_text(const Prediction& prediction) {
  if (!prediction.interval) return ", with an unknown error";
  return am::cat(", between ", am::format_step_time(prediction.interval->low), " and ",
                 am::format_step_time(prediction.interval->high));
}

// Returns lines about the goodput under failures and the best checkpoint interval.
std::string goodput_lines(const PlanInput& input, const Prediction& prediction) {
  const auto job = forecast_of(input, prediction);
  if (!job) return {};
  const auto saves = [&](const am::predict::SaveInterval& interval) {
    return am::cat(
        interval.steps, interval.steps == 1 ? " step (" : " steps (",
        am::format_duration(static_cast<double>(interval.steps) * prediction.time.seconds), ")");
  };
  const am::predict::FailureLosses& losses = job->losses;
  const double ranks = static_cast<double>(input.layout.mesh.world_size());
  return am::cat("\none failure every ", am::format_duration(losses.between_failures), "; ",
                 am::format_duration(losses.restart), " until training continues; a save of ",
                 am::format_bytes(std::llround(losses.checkpoint_bytes)), " blocks training for ",
                 am::format_duration(losses.save), "\ngoodput ", percent(job->planned.goodput),
                 " with saves every ", saves(job->planned), "; best: ", percent(job->best.goodput),
                 " every ", saves(job->best), "\n", input.plan.train.max_steps, " steps take ",
                 am::format_fixed(job->seconds / 3600.0, 1), " hours, ",
                 am::format_short_count(ranks * job->seconds / 3600.0), " GPU-hours\n");
}

std::string report(const PlanInput& input, const Prediction& prediction,
                   const am::term::Style& style) {
  const StepTime& time = prediction.time;
  std::string text = am::cat(
      mesh_text(input.layout.mesh.sizes(), style), " of ", prediction.assumptions.gpu.name, ", ",
      prediction.workload.implementation->name, ": ",
      style.paint(am::term::Role::kBold, am::format_step_time(time.seconds)), " per step",
      interval_text(prediction), "\n", am::format_short_count(prediction.tokens_per_second_per_gpu),
      " tokens/s per GPU, MFU ", percent(prediction.mfu), " of the ", peak_text(prediction),
      " peak\n\n");
  std::vector<am::term::Bar> bars;
  std::vector<const char*> reasons;
  for (const Part& part : parts_of(time)) {
    if (part.seconds < 5e-4 * time.seconds) continue;
    bars.push_back(
        {part.name, part.seconds,
         am::cat(am::format_step_time(part.seconds), "  ", percent(part.seconds / time.seconds))});
    reasons.push_back(part.why);
  }
  const auto lines = am::split(am::term::bars(bars, 24, style), '\n');
  for (size_t i = 0; i < reasons.size(); ++i) {
    text += am::term::beside(lines[i], reasons[i], style, am::term::Role::kDim) + "\n";
  }
  am::term::Table sent({{"sent by a rank in a step"}, {"", am::term::Align::kRight}});
  const std::array<std::pair<const char*, double>, 5> axes = {{{"tp", time.bytes.tp},
                                                               {"cp", time.bytes.cp},
                                                               {"ep", time.bytes.ep},
                                                               {"pp", time.bytes.pp},
                                                               {"dp", time.bytes.dp}}};
  double largest = 0.0;
  for (const auto& [name, bytes] : axes) largest = std::max(largest, bytes);
  const ByteColumn column(static_cast<int64_t>(largest));
  for (const auto& [name, bytes] : axes) {
    if (bytes > 0.0) sent.add({name, column.text(static_cast<int64_t>(bytes))});
  }
  if (largest > 0.0) text += "\n" + sent.text(style);
  text += goodput_lines(input, prediction);
  am::term::Table mfu({{"MFU as counted by"}, {"", am::term::Align::kRight}});
  for (const Convention& convention : kConventions) {
    const double flops = convention.flops(input.model, input.plan.train.seq_len);
    mfu.add({convention.name, percent(mfu_of(prediction, flops))});
  }
  text += "\n" + mfu.text(style) + "\n" + nearest_table(prediction, style);
  if (prediction.assumptions.gpu_is_assumed) {
    text += am::cat("\n", assumed_gpu_text(prediction.assumptions.gpu), "\n");
  }
  if (!prediction.basis.empty()) text += am::cat("\n", prediction.basis, ".\n");
  return text;
}

int run_cost(const PlanOptions& options, const Output& output) {
  constexpr int kNearest = 4;
  int status = am_apps::kFine;
  const auto input = load_input(options, output, status);
  if (!input.has_value()) return status;
  am::Diagnostics found;
  const auto prediction =
      am::predict::predict_step(input->plan, input->model, input->layout, kNearest, found);
  if (!prediction) return am_apps::refuse(found, output);
  if (output.json) {
    am_apps::print(result(*input, *prediction));
  } else {
    print_folded(report(*input, *prediction, output.out), output.out);
  }
  return am_apps::kFine;
}

Run declare_cost(CLI::App& command, SharedOptions& shared) {
  add_plan(command, shared);
  return [&shared](const Output& output) { return run_cost(shared.plan, output); };
}

}  // namespace

const Command kCostCommand = {
    .name = "cost",
    .summary = "Predict the time of a step",
    .example = "am-plan cost plan.toml --set 'cluster.gpu=\"h100-sxm\"'",
    .declare = declare_cost,
};

}  // namespace am_plan
