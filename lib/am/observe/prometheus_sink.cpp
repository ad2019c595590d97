#include "am/observe/prometheus_sink.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"

namespace am::observe {
namespace {

struct Gauge {
  std::string_view key;  // key in metrics.jsonl; a dot separates the keys of nested objects
  std::string_view help;
};

constexpr std::array<Gauge, 26> kGauges = {{
    {"step", "Number of finished steps."},
    {"loss", "Mean cross-entropy per label of the step."},
    {"grad_norm", "Norm of the gradients before clipping."},
    {"lr", "Learning rate."},
    {"tokens", "Tokens of the step, over all ranks."},
    {"step_seconds", "Duration of the step."},
    {"tokens_per_second", "Tokens per second, over all ranks."},
    {"tokens_per_second_per_rank", "Tokens per second, per rank."},
    {"peak_memory_bytes", "Peak memory, maximum over ranks."},
    {"peak_reserved_bytes", "Peak memory that a GPU's allocator reserved, maximum over ranks."},
    {"mfu", "Model FLOPs utilization, from 0 to 1."},
    {"time", "Unix time at the end of the step."},
    {"tokens_seen", "Tokens that the run has trained on."},
    {"data_seconds", "Time for which rank 0 waited for the step's data."},
    {"waiting_seconds", "Time for which rank 0 waited for other ranks."},
    {"validation_seconds", "Time of the validation after the step."},
    {"saving_seconds",
     "Time for which training waited for saves, exports and am-repl's commands before the step."},
    {"expert_load.max_over_mean", "Load of the busiest expert, divided by the mean."},
    {"expert_load.min_over_mean", "Load of the idlest expert, divided by the mean."},
    {"aux_loss", "Load-balancing loss of the experts."},
    {"loss_scale", "Loss scale of float16 training."},
    {"skipped_steps", "Number of steps without an update."},
    {"epoch", "Passes through the data."},
    {"epochs", "Passes through the data of each source."},
    {"validation_loss", "Mean cross-entropy per label of the validation data."},
    {"goodput", "Fraction of the job's time in steps that no failure undid."},
}};

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0.0 ? "+Inf" : "-Inf";
  return Json(value).dump();
}

std::string label_text(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? "\\n" : std::string(1, c);
  }
  return text;
}

}  // namespace

PrometheusSink::PrometheusSink(std::filesystem::path path, const std::string& run)
    : path_(std::move(path)), label_(cat("run=\"", label_text(run), "\"")) {}

void PrometheusSink::write(const StepMetrics& metrics) {
  const Json values = to_json(metrics);
  std::string text;
  for (const Gauge& gauge : kGauges) {
    std::string name(gauge.key);
    std::replace(name.begin(), name.end(), '.', '/');
    const Json::json_pointer place("/" + name);
    const Json value = values.contains(place) ? values[place] : Json();
    std::vector<std::pair<std::string, double>> samples;  // labels and numbers
    if (value.is_number()) samples.emplace_back(label_, value.get<double>());
    for (size_t i = 0; value.is_array() && i < value.size(); ++i) {
      samples.emplace_back(cat(label_, ",source=\"", i, "\""), value[i].get<double>());
    }
    if (gauge.key == "validation_loss") {
      for (const auto& [set, loss] : metrics.validation_losses) {
        samples.emplace_back(cat(label_, ",set=\"", label_text(set), "\""), loss);
      }
    }
    if (samples.empty()) continue;
    std::replace(name.begin(), name.end(), '/', '_');
    text += cat("# HELP automesh_", name, " ", gauge.help, "\n# TYPE automesh_", name, " gauge\n");
    for (const auto& [labels, number] : samples) {
      text += cat("automesh_", name, "{", labels, "} ", number_text(number), "\n");
    }
  }
  const std::filesystem::path temporary = path_.string() + ".tmp";
  // The file is not synced to disk, because each step replaces it.
  FileWriter(temporary).write(text);
  std::error_code reason;
  std::filesystem::rename(temporary, path_, reason);
  if (reason) {
    throw Error(ErrorKind::kIo, cat(path_.string(), ": cannot write: ", reason.message()));
  }
}

}  // namespace am::observe
