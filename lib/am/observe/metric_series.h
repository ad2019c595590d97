// Reads the numbers of selected keys from each line of metrics.jsonl. Does not parse the lines as
// JSON, so files of a million lines are read fast.
//
//   const MetricSeries series = read_series(run.metrics_file(), {"loss", "grad_norm"});
//   series.steps;       // {1, 2, ..}
//   series.values[0];   // the loss of each step; NaN if it is missing or not finite
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace am::observe {

struct MetricSeries {
  std::vector<std::string> keys;
  std::vector<double> steps;
  std::vector<std::vector<double>> values;  // values[i][line] of keys[i]
};

// Returns the keys under which a metrics file stores single numbers, except "step", in the order of
// a line's keys. A dot separates the keys of nested objects, for example
// "expert_load.max_over_mean". The keys "validation_loss/NAME" of named validation sets are not
// included.
const std::vector<std::string>& metric_keys();
// Returns `name` if it is one of metric_keys() or the key of a validation set, otherwise the only
// key that begins with `name`: "goodput" for "good". Throws Error(kUsage) if several keys begin
// with `name` ("expert_load"), or if no key does; the error then names a similar key, or all keys.
std::string metric_key(const std::string& name);

// Reads the numbers of `keys`, which must be results of metric_key(). An unfinished last line is
// skipped. Throws Error(kIo) if the file cannot be read, and Error(kFormat) with the line's number
// for a line without a step.
MetricSeries read_series(const std::filesystem::path& path, const std::vector<std::string>& keys);

}  // namespace am::observe
