#include "am/observe/prometheus_sink.h"

#include <catch2/catch.hpp>
#include <limits>
#include <set>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/observe/metric_series.h"
#include "support/temporary_folder.h"

using namespace am;
using namespace am::observe;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Returns metrics with a value for every key of metrics.jsonl.
StepMetrics full_sample() {
  StepMetrics metrics;
  metrics.step = 12;
  metrics.loss = 2.25;
  metrics.grad_norm = kNan;
  metrics.peak_reserved_bytes = int64_t{3} << 30;
  metrics.loss_scale = kInf;
  metrics.epochs = {0.5, 1.25};
  metrics.validation_loss = 2.5;
  metrics.validation_losses = {{"code", 3.5}};
  metrics.expert_load = {1.5, 0.25};
  metrics.aux_loss = 0.125;
  metrics.mfu = 0.5;
  metrics.time = 1.8e9;
  metrics.goodput = 0.75;
  return metrics;
}

std::string written(const StepMetrics& metrics, const std::string& run = "first") {
  const TemporaryFolder folder;
  PrometheusSink sink(folder / "metrics.prom", run);
  sink.write({.step = 1, .loss = 9.0});
  sink.write(metrics);
  int files = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(folder.path())) {
    ++files;
  }
  CHECK(files == 1);  // the temporary file is gone
  return read_file(folder / "metrics.prom");
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("metrics.prom has the last step in Prometheus's format") {
  const std::string text = written(full_sample());
  CHECK(has_line(text,
                 "# HELP automesh_loss Mean cross-entropy per label of the step.\n"
                 "# TYPE automesh_loss gauge\n"
                 "automesh_loss{run=\"first\"} 2.25"));
  CHECK(has_line(text, "automesh_step{run=\"first\"} 12.0"));
  CHECK(has_line(text, "automesh_grad_norm{run=\"first\"} NaN"));
  CHECK(has_line(text, "automesh_loss_scale{run=\"first\"} +Inf"));
  CHECK(has_line(text, "automesh_expert_load_min_over_mean{run=\"first\"} 0.25"));
  CHECK(has_line(text,
                 "automesh_validation_loss{run=\"first\"} 2.5\n"
                 "automesh_validation_loss{run=\"first\",set=\"code\"} 3.5"));
  CHECK(has_line(text, "automesh_epochs{run=\"first\",source=\"1\"} 1.25"));
  CHECK(has_line(written(full_sample(), "a\"b\\c\nd"), R"(automesh_step{run="a\"b\\c\nd"} 12.0)"));
}

TEST_CASE(
    "metrics.prom has every series of metrics.jsonl, with a help text, and none without value") {
  StepMetrics metrics = full_sample();
  metrics.epochs = {0.5};
  const std::string text = written(metrics);
  for (const std::string& key : metric_keys()) {
    const std::string name = "automesh_" + join(split(key, '.'), "_");
    CAPTURE(name);
    CHECK(text.find("# HELP " + name + " ") != std::string::npos);
    CHECK(text.find("\n" + name + "{") != std::string::npos);
  }
  const std::string little = written({.step = 2});
  CHECK(little.find("mfu") == std::string::npos);
  CHECK(little.find("epoch") == std::string::npos);
}

TEST_CASE("an unwritable metrics.prom is an error with the file's name") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "metrics.prom/inner");
  PrometheusSink sink(folder / "metrics.prom", "first");
  REQUIRE_THROWS_WITH(sink.write({.step = 1}), Catch::Contains("metrics.prom"));
}
