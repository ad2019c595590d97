// Reads some numbers of each line of metrics.jsonl, fast enough for files of a million lines.
//
//   const MetricSeries series = read_series(run.metrics_file(), {"loss", "grad_norm"});
//   series.steps;       // {1, 2, ..}
//   series.values[0];   // the loss of each step; NaN where a line lacks it or it was not finite
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace am::observe {

struct MetricSeries {
  std::vector<std::string> keys;
  std::vector<double> steps;
  std::vector<std::vector<double>> values;  // by key, as long as `steps`
};

// Returns the keys of numbers that a metrics file can have, in the order of its lines. A dot
// separates the keys of nested objects, for example "expert_load.max_over_mean".
const std::vector<std::string>& metric_keys();
// Returns the full key that `name` means: itself, or the only key that begins with it
// ("expert_load" is ambiguous, "good" is "goodput"). Throws Error(kUsage) with similar keys
// for other names.
std::string metric_key(const std::string& name);

// Reads the numbers under `keys`, which metric_key() has returned. An unfinished last line is
// skipped. Throws Error(kIo) if the file cannot be read, and Error(kFormat) with the line's number
// for a line without a step.
MetricSeries read_series(const std::filesystem::path& path, const std::vector<std::string>& keys);

}  // namespace am::observe
