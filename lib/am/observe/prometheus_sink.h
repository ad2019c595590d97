// Writes the metrics of the last step to a file in Prometheus's text format.
//
//   PrometheusSink sink(run.root() / "metrics.prom", "first");
//   sink.write(metrics);
//
//   # HELP automesh_loss Mean cross-entropy per label of the step.
//   # TYPE automesh_loss gauge
//   automesh_loss{run="first"} 2.25
//
// A gauge's name is automesh_ and the metric's key in metrics.jsonl. Values that are not finite are
// written as NaN, +Inf or -Inf.
#pragma once

#include <filesystem>
#include <string>

#include "am/observe/metrics.h"

namespace am::observe {

class PrometheusSink : public MetricSink {
 public:
  // `path`: the file to write. `run`: value of the label `run`, usually the name of the run folder.
  PrometheusSink(std::filesystem::path path, const std::string& run);

  // Replaces the file by a rename.
  void write(const StepMetrics& metrics) override;

 private:
  std::filesystem::path path_;
  std::string label_;  // run="NAME"
};

}  // namespace am::observe
