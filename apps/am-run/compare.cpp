// am-run compare RUN [OTHER]: compares the measured times and memory of a run with the prediction
// of its plan, or with another run.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "am/base/home.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/job/job.h"
#include "am/launch/doctor/memory_fit.h"
#include "am/observe/metric_series.h"
#include "am/predict/memory/stage_memory.h"
#include "am/predict/time/goodput.h"
#include "am/predict/time/prediction.h"
#include "am/run_folder/run_folder.h"
#include "am/term/table.h"
#include "common/command_line.h"
#include "common/output.h"
#include "job.h"

namespace am_run {

namespace {

using namespace am;
namespace fs = std::filesystem;

constexpr const char* kCompareDescription =
    "Compares the times and the memory of a run, part by part, with the prediction of its plan or "
    "with another run.\n\n"
    "Examples:\n"
    "  am-run compare runs/quickstart\n"
    "  am-run compare runs/today runs/yesterday --json";

// Number of first steps that the means leave out, because a run sets up kernels, caches and
// connections in these steps. In a short run, the means leave out at most half of the steps.
constexpr size_t kWarmUp = 3;
// A part is reported as longer than planned, or longer than in the other run, if the difference is
// more than this fraction of the run's step time.
constexpr double kNoise = 0.1;

enum class Unit { kSeconds, kBytes, kRate, kFraction };

// One quantity of a run, measured or predicted: a row of the comparison. `value` is empty if the
// quantity was not measured or is not predicted.
struct Part {
  std::string name;
  std::string key;
  Unit unit = Unit::kSeconds;
  bool adds_up = false;  // whether excesses() compares this quantity
  std::optional<double> value = {};
};
using Parts = std::vector<Part>;

Parts empty_parts() {
  return {{"step", "step_seconds"},
          {"  compute", "compute_seconds", Unit::kSeconds, true},
          {"  waiting for ranks", "waiting_seconds", Unit::kSeconds, true},
          {"  data", "data_seconds", Unit::kSeconds, true},
          {"saving and pauses", "saving_seconds", Unit::kSeconds, true},
          {"validation", "validation_seconds", Unit::kSeconds, true},
          {"tokens per second", "tokens_per_second", Unit::kRate},
          {"MFU", "mfu", Unit::kFraction},
          {"peak memory", "peak_memory_bytes", Unit::kBytes}};
}

Part& part(Parts& parts, std::string_view key) {
  return *std::find_if(parts.begin(), parts.end(),
                       [&](const Part& each) { return each.key == key; });
}

struct Measured {
  Parts parts = empty_parts();
  size_t steps = 0;     // number of steps that are averaged
  int64_t ranks = 0;    // 0: unknown
  bool on_gpu = false;  // whether the run's tensors were on GPUs
};

// Returns the mean of the finite values, or nothing if no value is finite.
std::optional<double> mean_of(std::span<const double> values) {
  double sum = 0.0;
  size_t count = 0;
  for (const double each : values) {
    if (!std::isfinite(each)) continue;
    sum += each;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

Measured measure(const run_folder::RunFolder& run) {
  if (!fs::exists(run.metrics_file())) {
    throw Error(ErrorKind::kIo, cat(run.root().string(), ": no metrics.jsonl"),
                "am-run compare RUN, where RUN is the folder of a run that has trained");
  }
  const auto series = observe::read_series(
      run.metrics_file(), {"step_seconds", "waiting_seconds", "data_seconds", "saving_seconds",
                           "validation_seconds", "tokens_per_second", "tokens_per_second_per_rank",
                           "mfu", "peak_memory_bytes", "peak_reserved_bytes"});
  if (series.steps.empty()) {
    throw Error(ErrorKind::kFormat, cat(run.metrics_file().string(), ": no finished step"));
  }
  const size_t left_out = std::min(kWarmUp, series.steps.size() / 2);
  const auto values_of = [&](std::string_view key) -> std::span<const double> {
    const auto found = std::find(series.keys.begin(), series.keys.end(), key);
    return series.values[static_cast<size_t>(found - series.keys.begin())];
  };
  const auto later_mean = [&](std::string_view key) {
    return mean_of(values_of(key).subspan(left_out));
  };
  Measured out;
  out.steps = series.steps.size() - left_out;
  out.on_gpu = mean_of(values_of("peak_reserved_bytes")).has_value();
  for (const char* key : {"step_seconds", "waiting_seconds", "data_seconds", "mfu"}) {
    part(out.parts, key).value = later_mean(key);
  }
  // Saves and validations are rare, so those of the first steps are not left out.
  for (const char* key : {"saving_seconds", "validation_seconds"}) {
    part(out.parts, key).value = mean_of(values_of(key));
  }
  const auto peaks = values_of("peak_memory_bytes");
  part(out.parts, "peak_memory_bytes").value = *std::max_element(peaks.begin(), peaks.end());
  const auto step = part(out.parts, "step_seconds").value;
  auto& waiting = part(out.parts, "waiting_seconds").value;
  const auto data = part(out.parts, "data_seconds").value;
  // On a GPU, waiting_seconds is left out, because it also contains the host's waiting for its own
  // GPU.
  if (out.on_gpu) waiting.reset();
  if (step && data && (waiting || out.on_gpu)) {
    part(out.parts, "compute_seconds").value = *step - *data - waiting.value_or(0.0);
  }
  const auto rate = later_mean("tokens_per_second");
  const auto of_rank = later_mean("tokens_per_second_per_rank");
  if (rate && of_rank && *of_rank > 0.0) out.ranks = std::llround(*rate / *of_rank);
  // The mean of tokens_per_second is weighted by the times of the steps.
  const auto seconds = values_of("step_seconds"), rates = values_of("tokens_per_second");
  double time = 0.0, tokens = 0.0;
  for (size_t i = left_out; i < seconds.size(); ++i) {
    if (!std::isfinite(seconds[i] * rates[i])) continue;
    time += seconds[i];
    tokens += seconds[i] * rates[i];
  }
  if (time > 0.0) part(out.parts, "tokens_per_second").value = tokens / time;
  return out;
}

// Returns the prediction for the run's plan, without times if the run computed on CPUs. Adds
// remarks about the prediction to `notes`, and errors of the plan to `found`.
Parts predict(const run_folder::RunFolder& run, const Measured& measured, Diagnostics& found,
              std::vector<std::string>& notes) {
  Parts out = empty_parts();
  auto job = job::open_job(
      {.file = run.plan_file(), .world_size = measured.ranks, .purpose = job::Purpose::kInspection},
      found);
  if (!job) return out;
  if (!measured.on_gpu) {
    std::visit([](auto& strategy) { strategy.backend = "gloo"; }, job->plan.strategy);
  }
  const auto stages = predict::memory_of_stages(job->plan, job->model, job->layout);
  const int64_t tensors = predict::peak_of(stages).components.total();
  // For a run on CPUs, the measured peak is the memory of the whole process, including libtorch.
  part(out, "peak_memory_bytes").value =
      static_cast<double>(tensors + (measured.on_gpu ? 0 : launch::kRankBytes));
  if (!measured.on_gpu) {
    notes.emplace_back("the run computed on CPUs, for which am-plan predicts only memory");
    return out;
  }
  const auto prediction = predict::predict_step(job->plan, job->model, job->layout, 1, found);
  if (!prediction) return out;
  const predict::StepTime& time = prediction->time;
  part(out, "step_seconds").value = time.seconds;
  part(out, "compute_seconds").value = time.seconds;  // with communication, as measured on GPUs
  part(out, "data_seconds").value = 0.0;
  part(out, "tokens_per_second").value =
      prediction->tokens_per_second_per_gpu * static_cast<double>(job->layout.mesh.world_size());
  part(out, "mfu").value = prediction->mfu;
  const cluster::Gpu& gpu = prediction->assumptions.gpu;
  if (const auto whole =
          predict::forecast(job->plan, job->layout, gpu, time.seconds, job->plan.train.max_steps)) {
    part(out, "saving_seconds").value =
        whole->losses.save / static_cast<double>(std::max<int64_t>(1, whole->planned.steps));
  }
  if (prediction->assumptions.gpu_is_assumed) {
    notes.push_back(cat("the plan names no cluster.gpu; the prediction assumes ", gpu.name));
  }
  if (prediction->interval) {
    notes.push_back(cat("the prediction's interval, for nine of ten such jobs: a step takes ",
                        format_step_time(prediction->interval->low), " to ",
                        format_step_time(prediction->interval->high)));
  }
  return out;
}

std::string value_text(const Part& part) {
  if (!part.value) return "-";
  switch (part.unit) {
    case Unit::kSeconds:
      return format_step_time(*part.value);
    case Unit::kBytes:
      return format_bytes(std::llround(*part.value));
    case Unit::kRate:
      return format_short_count(*part.value);
    case Unit::kFraction:
      return cat(format_fixed(100.0 * *part.value, 1), " %");
  }
  return {};
}

std::optional<double> ratio(const Part& run, const Part& other) {
  if (!run.value || !other.value || *other.value <= 0.0) return std::nullopt;
  return *run.value / *other.value;
}

// Returns the parts of `run` that are longer than in `other` by more than kNoise, each with the
// difference in seconds, in descending order of the difference.
std::vector<std::pair<const Part*, double>> excesses(const Parts& run, const Parts& other) {
  const double step = run.front().value.value_or(0.0);
  std::vector<std::pair<const Part*, double>> out;
  for (size_t i = 0; i < run.size(); ++i) {
    if (!run[i].adds_up || !run[i].value || !other[i].value) continue;
    const double excess = *run[i].value - *other[i].value;
    if (excess > kNoise * step) out.emplace_back(&run[i], excess);
  }
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

int compare(const std::string& first, const std::string& second, const am_apps::Output& output) {
  const run_folder::RunFolder run(expand_home(first));
  const Measured measured = measure(run);
  Diagnostics found;
  std::vector<std::string> notes;
  const bool of_plan = second.empty();
  const Parts other = of_plan ? predict(run, measured, found, notes)
                              : measure(run_folder::RunFolder(expand_home(second))).parts;
  if (!found.ok()) return am_apps::refuse(found, output);
  const std::string against = of_plan ? "plan" : "other";
  Json rows = Json::array();
  term::Table table({{"", term::Align::kLeft},
                     {"run", term::Align::kRight},
                     {against, term::Align::kRight},
                     {cat("run / ", against), term::Align::kRight}});
  for (size_t i = 0; i < other.size(); ++i) {
    Part own = measured.parts[i];
    if (measured.on_gpu && own.key == "compute_seconds") own.name = "  compute and communication";
    if (!own.value && !other[i].value) continue;
    const auto factor = ratio(own, other[i]);
    rows.push_back({{"part", own.key},
                    {"run", own.value ? Json(*own.value) : Json()},
                    {against, other[i].value ? Json(*other[i].value) : Json()}});
    table.add(
        {own.name, value_text(own), value_text(other[i]), factor ? format_fixed(*factor, 2) : ""});
  }
  const auto longer = excesses(measured.parts, other);
  Json slower = Json::array();
  std::string text = table.text(output.out);
  for (const auto& [which, excess] : longer) {
    slower.push_back({{"part", which->key}, {"seconds", excess}});
    text += cat("longer than ", of_plan ? "planned" : "in the other run", ": ",
                std::string(trim(which->name)), ", by ", format_step_time(excess), " per step\n");
  }
  for (const std::string& note : notes) text += cat("note: ", note, "\n");
  if (output.json) {
    am_apps::print(Json{{"ok", true},
                        {"steps", measured.steps},
                        {"rows", rows},
                        {"longer", slower},
                        {"notes", notes}});
  } else {
    am_apps::print(text);
  }
  return am_apps::kFine;
}

}  // namespace

int run_compare(int argc, char** argv) {
  std::string run, other;
  am_apps::CommonFlags flags;
  CLI::App app(kCompareDescription, "am-run compare");
  app.add_option("RUN", run, "The folder of a run")->required();
  app.add_option("OTHER", other, "Another run; without it, the prediction of the run's plan");
  am_apps::add_json(app, flags,
                    "One object on stdout: {\"ok\", \"steps\", \"rows\": [{\"part\", \"run\", "
                    "\"plan\" | \"other\"}], \"longer\": [{\"part\", \"seconds\"}], \"notes\"}");
  am_apps::add_color(app, flags);
  if (const auto status = am_apps::parse(app, argc, argv)) return *status;
  const auto output = am_apps::Output::of(flags.json, flags.color_mode());
  return am_apps::guarded("am-run compare", output, [&] { return compare(run, other, output); });
}

}  // namespace am_run
