#include "am/observe/metric_series.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/observe/metrics.h"

namespace am::observe {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// Returns the number that follows `quoted_key`, for example `"loss":`, in a line. Returns NaN if
// null follows, and nothing if the line does not contain the key or no number follows. Lines are
// written by to_json_line(), so no string in a line contains a quoted key.
std::optional<double> number_after(std::string_view line, std::string_view quoted_key) {
  const size_t at = line.find(quoted_key);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(at + quoted_key.size());
  const size_t begin = rest.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return std::nullopt;
  rest.remove_prefix(begin);
  if (starts_with(rest, "null")) return kMissing;
  double value = 0.0;
  const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  return read.ec == std::errc() ? std::optional(value) : std::nullopt;
}

// Returns the text that precedes the key's number in a line. For a key of a nested object, for
// example "expert_load.max_over_mean", this is the last part of the key, which occurs once per
// line.
std::string pattern_of(const std::string& key) {
  const bool nested = !starts_with(key, kValidationPrefix);
  return cat("\"", nested ? key.substr(key.rfind('.') + 1) : key, "\":");
}

}  // namespace

const std::vector<std::string>& metric_keys() {
  static const auto* const kKeys = new std::vector<std::string>{"loss",
                                                                "grad_norm",
                                                                "lr",
                                                                "tokens",
                                                                "step_seconds",
                                                                "tokens_per_second",
                                                                "tokens_per_second_per_rank",
                                                                "peak_memory_bytes",
                                                                "mfu",
                                                                "time",
                                                                "tokens_seen",
                                                                "data_seconds",
                                                                "waiting_seconds",
                                                                "validation_seconds",
                                                                "saving_seconds",
                                                                "peak_reserved_bytes",
                                                                "expert_load.max_over_mean",
                                                                "expert_load.min_over_mean",
                                                                "aux_loss",
                                                                "loss_scale",
                                                                "skipped_steps",
                                                                "epoch",
                                                                "validation_loss",
                                                                "goodput"};
  return *kKeys;
}

std::string metric_key(const std::string& name) {
  const auto& keys = metric_keys();
  if (std::find(keys.begin(), keys.end(), name) != keys.end()) return name;
  if (starts_with(name, kValidationPrefix) && name.size() > kValidationPrefix.size()) return name;
  std::vector<std::string> meant;
  for (const std::string& key : keys) {
    if (starts_with(key, name)) meant.push_back(key);
  }
  if (meant.size() == 1) return meant.front();
  if (!meant.empty()) {
    throw Error(ErrorKind::kUsage, cat("`", name, "` can mean ", join(meant, " or ")));
  }
  const auto near = nearest(name, keys);
  throw Error(
      ErrorKind::kUsage, cat("a run has no metric `", name, "`"),
      near ? cat("did you mean `", *near, "`?") : cat("its metrics are ", join(keys, ", ")));
}

MetricSeries read_series(const std::filesystem::path& path, const std::vector<std::string>& keys) {
  const std::string text = read_file(path, kAnySize);
  MetricSeries series;
  series.keys = keys;
  series.values.resize(keys.size());
  std::vector<std::string> patterns;
  for (const std::string& key : keys) patterns.push_back(pattern_of(key));
  const std::string_view all = text;
  for (size_t at = 0; at < all.size();) {
    const size_t end = all.find('\n', at);
    if (end == std::string_view::npos) break;
    const std::string_view line = all.substr(at, end - at);
    const auto step = number_after(line, "\"step\":");
    if (!step) {
      throw Error(ErrorKind::kFormat,
                  cat(path.string(), ":", series.steps.size() + 1, ": not a metrics record"));
    }
    series.steps.push_back(*step);
    for (size_t i = 0; i < keys.size(); ++i) {
      series.values[i].push_back(number_after(line, patterns[i]).value_or(kMissing));
    }
    at = end + 1;
  }
  return series;
}

}  // namespace am::observe
