// Writes the metrics of the last step to a file in Prometheus's text format.
//
//   PrometheusSink sink(run.root() / "metrics.prom", "first");
//   sink.write(metrics);
//
//   # HELP automesh_loss Mean cross-entropy per label of the step.
//   # TYPE automesh_loss gauge
//   automesh_loss{run="first"} 2.25
//
// The gauges are named after the keys of metrics.jsonl. A loss that is not finite is NaN or +Inf.
#pragma once

#include <filesystem>
#include <string>

#include "am/observe/metrics.h"

namespace am::observe {

class PrometheusSink : public MetricSink {
 public:
  // `run`: value of the label `run`.
  PrometheusSink(std::filesystem::path path, const std::string& run);

  // Replaces the file, by a rename.
  void write(const StepMetrics& metrics) override;

 private:
  std::filesystem::path path_;
  std::string label_;  // run="NAME"
};

}  // namespace am::observe
