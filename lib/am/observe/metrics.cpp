#include "am/observe/metrics.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json_integer.h"
#include "am/base/text.h"

namespace am::observe {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

StepMetrics from_json(const Json& json) {
  const auto number = [&](const char* key) {
    const Json& value = json.at(key);
    return value.is_null() ? kNan : value.get<double>();
  };
  StepMetrics metrics;
  metrics.step = integer_of(json.at("step"));
  metrics.loss = number("loss");
  metrics.grad_norm = number("grad_norm");
  metrics.lr = number("lr");
  metrics.tokens = integer_of(json.at("tokens"));
  metrics.step_seconds = number("step_seconds");
  metrics.tokens_per_second = number("tokens_per_second");
  metrics.tokens_per_second_per_rank = number("tokens_per_second_per_rank");
  metrics.peak_memory_bytes = integer_of(json.at("peak_memory_bytes"));
  // Records of older versions, and records without a time, do not contain these keys.
  if (json.contains("tokens_seen")) {
    metrics.time = number("time");
    metrics.tokens_seen = integer_of(json["tokens_seen"]);
    metrics.data_seconds = number("data_seconds");
    if (json.contains("waiting_seconds")) metrics.waiting_seconds = number("waiting_seconds");
    metrics.validation_seconds = number("validation_seconds");
    metrics.saving_seconds = number("saving_seconds");
  }
  if (json.contains("peak_reserved_bytes")) {
    metrics.peak_reserved_bytes = integer_of(json["peak_reserved_bytes"]);
  }
  if (!json.at("mfu").is_null()) metrics.mfu = json.at("mfu").get<double>();
  if (json.contains("expert_load")) {
    const Json& load = json["expert_load"];
    metrics.expert_load = {load.at("max_over_mean").get<double>(),
                           load.at("min_over_mean").get<double>()};
  }
  if (json.contains("aux_loss")) metrics.aux_loss = number("aux_loss");
  if (json.contains("loss_scale")) metrics.loss_scale = json["loss_scale"].get<double>();
  if (json.contains("epoch")) metrics.epochs = {number("epoch")};
  if (json.contains("epochs")) metrics.epochs = json["epochs"].get<std::vector<double>>();
  if (json.contains("validation_loss")) metrics.validation_loss = number("validation_loss");
  for (const auto& [key, value] : json.items()) {
    if (!starts_with(key, kValidationPrefix)) continue;
    metrics.validation_losses.emplace_back(key.substr(kValidationPrefix.size()),
                                           value.is_null() ? kNan : value.get<double>());
  }
  if (json.contains("goodput")) metrics.goodput = number("goodput");
  if (json.contains("skipped_steps")) metrics.skipped_steps = integer_of(json["skipped_steps"]);
  return metrics;
}

}  // namespace

ExpertLoad expert_load(std::span<const double> counts, size_t experts) {
  ExpertLoad load;
  for (size_t first = 0; first + experts <= counts.size(); first += experts) {
    const std::span<const double> layer = counts.subspan(first, experts);
    const double sum = std::accumulate(layer.begin(), layer.end(), 0.0);
    if (sum == 0.0) continue;
    const auto [least, most] = std::minmax_element(layer.begin(), layer.end());
    load.busiest = std::max(load.busiest, *most * static_cast<double>(experts) / sum);
    load.idlest = std::min(load.idlest, *least * static_cast<double>(experts) / sum);
  }
  return load;
}

void fill_rates(StepMetrics& metrics, int64_t world_size) {
  metrics.tokens_per_second =
      metrics.step_seconds > 0.0 ? static_cast<double>(metrics.tokens) / metrics.step_seconds : 0.0;
  metrics.tokens_per_second_per_rank = metrics.tokens_per_second / static_cast<double>(world_size);
}

Json to_json(const ExpertLoad& load) {
  return {{"max_over_mean", load.busiest}, {"min_over_mean", load.idlest}};
}

Json to_json(const StepMetrics& metrics) {
  Json json = {{"step", metrics.step},
               {"loss", metrics.loss},
               {"grad_norm", metrics.grad_norm},
               {"lr", metrics.lr},
               {"tokens", metrics.tokens},
               {"step_seconds", metrics.step_seconds},
               {"tokens_per_second", metrics.tokens_per_second},
               {"tokens_per_second_per_rank", metrics.tokens_per_second_per_rank},
               {"peak_memory_bytes", metrics.peak_memory_bytes},
               {"mfu", nullptr}};
  if (metrics.time > 0.0) {
    json["time"] = metrics.time;
    json["tokens_seen"] = metrics.tokens_seen;
    json["data_seconds"] = metrics.data_seconds;
    json["waiting_seconds"] = metrics.waiting_seconds;
    json["validation_seconds"] = metrics.validation_seconds;
    json["saving_seconds"] = metrics.saving_seconds;
  }
  if (metrics.peak_reserved_bytes) json["peak_reserved_bytes"] = *metrics.peak_reserved_bytes;
  if (metrics.mfu) json["mfu"] = *metrics.mfu;
  if (metrics.expert_load) {
    json["expert_load"] = to_json(*metrics.expert_load);
  }
  if (metrics.aux_loss) json["aux_loss"] = *metrics.aux_loss;
  if (metrics.loss_scale) json["loss_scale"] = *metrics.loss_scale;
  if (metrics.loss_scale || metrics.skipped_steps > 0) {
    json["skipped_steps"] = metrics.skipped_steps;
  }
  if (metrics.epochs.size() == 1) json["epoch"] = metrics.epochs.front();
  if (metrics.epochs.size() > 1) json["epochs"] = metrics.epochs;
  if (metrics.validation_loss) json["validation_loss"] = *metrics.validation_loss;
  for (const auto& [name, loss] : metrics.validation_losses) {
    json[cat(kValidationPrefix, name)] = loss;
  }
  if (metrics.goodput) json["goodput"] = *metrics.goodput;
  return json;
}

// dump() writes numbers that are not finite as null.
std::string to_json_line(const StepMetrics& metrics) { return to_json(metrics).dump(); }

std::vector<StepMetrics> read_metrics(const std::filesystem::path& path) {
  const std::string text = read_file(path, kAnySize);
  std::vector<StepMetrics> records;
  int number = 1;
  for (size_t at = 0; at < text.size(); ++number) {
    const size_t end = text.find('\n', at);
    if (end == std::string::npos) break;  // the last line is unfinished: the writer crashed
    try {
      records.push_back(from_json(Json::parse(text.substr(at, end - at))));
    } catch (const Json::exception&) {
      throw Error(ErrorKind::kFormat, cat(path.string(), ":", number, ": not a metrics record"));
    }
    at = end + 1;
  }
  return records;
}

}  // namespace am::observe
