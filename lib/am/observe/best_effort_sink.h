// A sink of metrics whose errors do not end the job.
//
//   BestEffortSink sink(std::make_unique<JsonlSink>("/mnt/metrics.jsonl", 0),
//                       [](const std::string& line) { std::cerr << line << "\n"; });
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/observe/metrics.h"

namespace am::observe {

// Passes metrics on to the sink `inner`. When `inner` throws its first Error, calls `report` with
// the error's text; later metrics are dropped.
class BestEffortSink : public MetricSink {
 public:
  using Report = std::function<void(const std::string& line)>;

  BestEffortSink(std::unique_ptr<MetricSink> inner, Report report)
      : inner_(std::move(inner)), report_(std::move(report)) {}

  void write(const StepMetrics& metrics) override {
    attempt([&] { inner_->write(metrics); });
  }
  void flush() override {
    attempt([&] { inner_->flush(); });
  }

 private:
  template <typename Action>
  void attempt(const Action& action) {
    if (inner_ == nullptr) return;
    try {
      action();
    } catch (const Error& error) {
      inner_ = nullptr;
      report_(cat(error.what(), "; the job continues without this file"));
    }
  }

  std::unique_ptr<MetricSink> inner_;
  Report report_;
};

}  // namespace am::observe
