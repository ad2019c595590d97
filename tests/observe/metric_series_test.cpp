// Tests the reader that extracts numbers from metrics.jsonl without parsing whole lines as JSON.
#include "am/observe/metric_series.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/observe/metrics.h"
#include "support/temporary_folder.h"

namespace am::observe {
namespace {

// Returns a record with a different number for each of metric_keys().
StepMetrics full_record(int64_t step) {
  StepMetrics metrics;
  double next = 0.25 + static_cast<double>(step);
  const auto number = [&next] { return next *= 1.5; };
  metrics.step = step;
  metrics.loss = number();
  metrics.grad_norm = number();
  metrics.lr = number() * 1e-12;
  metrics.tokens = 123 + step;
  metrics.step_seconds = number();
  metrics.tokens_per_second = number();
  metrics.tokens_per_second_per_rank = number();
  metrics.peak_memory_bytes = 77;
  metrics.peak_reserved_bytes = 78;
  metrics.loss_scale = 1024.0;
  metrics.skipped_steps = 3;
  metrics.epochs = {number()};
  metrics.validation_loss = number();
  metrics.expert_load = ExpertLoad{number(), number()};
  metrics.aux_loss = number();
  metrics.mfu = number();
  metrics.goodput = number();
  metrics.time = number();
  metrics.tokens_seen = 999;
  metrics.data_seconds = number();
  metrics.waiting_seconds = number();
  metrics.validation_seconds = number();
  metrics.saving_seconds = number();
  return metrics;
}

}  // namespace

TEST_CASE("every number of a line is read as it was written") {
  const TemporaryFolder temp;
  const auto path = temp / "metrics.jsonl";
  JsonlSink sink(path, 0);
  for (int64_t step = 1; step <= 50; ++step) sink.write(full_record(step));
  const MetricSeries series = read_series(path, metric_keys());
  REQUIRE(series.steps.size() == 50);
  const Json line = Json::parse(to_json_line(full_record(50)));
  CHECK(series.steps.back() == 50.0);
  for (size_t i = 0; i < series.keys.size(); ++i) {
    INFO(series.keys[i]);
    std::string pointer = "/" + series.keys[i];
    for (char& c : pointer) c = c == '.' ? '/' : c;
    CHECK(series.values[i].back() == line.at(Json::json_pointer(pointer)).get<double>());
  }
  // metric_keys() lists all keys of the line except `step`.
  const Json flat = line.flatten();
  CHECK(flat.size() == metric_keys().size() + 1);
}

TEST_CASE("null, a missing key and an unfinished line") {
  const TemporaryFolder temp;
  const auto path = temp / "metrics.jsonl";
  std::ofstream(path) << R"({"step":1,"loss":null,"validation_loss":3.5,"validation_loss/a.b":4})"
                      << "\n"
                      << R"({"step": 2, "loss": 1e-3})"
                      << "\n"
                      << R"({"step":3,"lo)";
  const MetricSeries series = read_series(path, {"loss", "validation_loss"});
  REQUIRE(series.steps == std::vector<double>{1.0, 2.0});
  CHECK(std::isnan(series.values[0][0]));
  CHECK(series.values[0][1] == 1e-3);
  CHECK(series.values[1][0] == 3.5);
  CHECK(std::isnan(series.values[1][1]));
  CHECK(metric_key("validation_loss/a.b") == "validation_loss/a.b");
  CHECK(read_series(path, {"validation_loss/a.b"}).values[0][0] == 4.0);
  std::ofstream(path) << "{\"step\":1}\nnonsense\n";
  CHECK_THROWS_WITH(read_series(path, {"loss"}), Catch::Contains("metrics.jsonl:2"));
}

TEST_CASE("a metric is named in full, or by a beginning that only it has") {
  CHECK(metric_key("loss") == "loss");
  CHECK(metric_key("good") == "goodput");
  CHECK_THROWS_WITH(metric_key("expert_load"), Catch::Contains("max_over_mean or"));
  CHECK_THROWS_AS(metric_key("los_"), Error);
}

}  // namespace am::observe
