// A sink of metrics whose failure does not end the job.
//
//   BestEffortSink sink([] { return std::make_unique<JsonlSink>("/mnt/metrics.jsonl", 0); },
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

// Passes metrics on to another sink. After its first error, which `report` receives, nothing more
// is written.
class BestEffortSink : public MetricSink {
 public:
  using Report = std::function<void(const std::string& line)>;

  // `make` creates the sink; its error is reported too.
  BestEffortSink(const std::function<std::unique_ptr<MetricSink>()>& make, Report report)
      : report_(std::move(report)) {
    attempt([&] { inner_ = make(); });
  }

  void write(const StepMetrics& metrics) override {
    attempt([&] {
      if (inner_) inner_->write(metrics);
    });
  }
  void flush() override {
    attempt([&] {
      if (inner_) inner_->flush();
    });
  }

 private:
  template <typename Action>
  void attempt(const Action& action) {
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
