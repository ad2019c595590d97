#include "am/observe/metrics.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <limits>

#include "am/base/error.h"
#include "am/base/json.h"
#include "support/temporary_folder.h"

using namespace am;
using namespace am::observe;

namespace {

StepMetrics sample(int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 5.0 / 3.0;
  metrics.grad_norm = 0.1;
  metrics.lr = 3e-4;
  metrics.tokens = 4096;
  metrics.step_seconds = 0.25;
  metrics.peak_memory_bytes = int64_t{3} << 30;
  metrics.mfu = 0.41;
  fill_rates(metrics, 4);
  return metrics;
}

std::vector<int64_t> steps_in(const std::filesystem::path& path) {
  std::vector<int64_t> steps;
  for (const auto& metrics : read_metrics(path)) steps.push_back(metrics.step);
  return steps;
}

}  // namespace

TEST_CASE("rates count tokens over the world") {
  const StepMetrics metrics = sample(1);
  CHECK(metrics.tokens_per_second == 16384.0);
  CHECK(metrics.tokens_per_second_per_rank == 4096.0);
  StepMetrics no_time;
  no_time.tokens = 8;
  fill_rates(no_time, 2);
  CHECK(no_time.tokens_per_second == 0.0);
}

TEST_CASE("a metrics line has the keys of the interface in order") {
  const Json json = Json::parse(to_json_line(sample(7)));
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"step", "loss", "grad_norm", "lr", "tokens",
                                         "step_seconds", "tokens_per_second",
                                         "tokens_per_second_per_rank", "peak_memory_bytes", "mfu"});
  CHECK(json["step"] == 7);
  CHECK(json["loss"].get<double>() == 5.0 / 3.0);
  StepMetrics timed = sample(7);
  timed.time = 1.8e9;
  timed.tokens_seen = 12;
  const Json more = Json::parse(to_json_line(timed));
  for (const char* key : {"time", "tokens_seen", "data_seconds", "waiting_seconds",
                          "validation_seconds", "saving_seconds"}) {
    keys.emplace_back(key);
  }
  CHECK(more.size() == keys.size());
  for (const std::string& key : keys) CHECK(more.contains(key));
}

TEST_CASE("reserved bytes are those of GPUs alone") {
  StepMetrics metrics = sample(1);
  CHECK_FALSE(Json::parse(to_json_line(metrics)).contains("peak_reserved_bytes"));
  metrics.peak_reserved_bytes = int64_t{4} << 30;
  CHECK(Json::parse(to_json_line(metrics))["peak_reserved_bytes"] == int64_t{4} << 30);
}

TEST_CASE("the load of experts is that of the layer where it is worst") {
  const std::vector<double> counts = {4, 4, 4, 4, 0, 0, 0, 0, 1, 6, 5, 4};
  CHECK(expert_load(counts, 4) == ExpertLoad{1.5, 0.25});
  CHECK(expert_load({}, 4) == ExpertLoad{1.0, 1.0});
  StepMetrics metrics = sample(1);
  metrics.expert_load = expert_load(counts, 4);
  const Json load = Json::parse(to_json_line(metrics))["expert_load"];
  CHECK(load["max_over_mean"] == 1.5);
  CHECK(load["min_over_mean"] == 0.25);
}

TEST_CASE("values that are not finite are null") {
  StepMetrics metrics = sample(1);
  metrics.loss = std::numeric_limits<double>::quiet_NaN();
  metrics.grad_norm = std::numeric_limits<double>::infinity();
  metrics.mfu.reset();
  const Json json = Json::parse(to_json_line(metrics));
  CHECK(json["loss"].is_null());
  CHECK(json["grad_norm"].is_null());
  CHECK(json["mfu"].is_null());
}

TEST_CASE("what is written reads back to the last bit") {
  const TemporaryFolder folder;
  {
    JsonlSink sink(folder / "m.jsonl", 0);
    sink.write(sample(1));
    StepMetrics bad = sample(2);
    bad.loss = std::numeric_limits<double>::quiet_NaN();
    bad.mfu.reset();
    bad.expert_load = ExpertLoad{1.25, 0.5};
    bad.aux_loss = 1.0 / 7.0;
    sink.write(bad);
    StepMetrics validated = sample(3);
    validated.validation_loss = 1.0 / 3.0;
    validated.validation_losses = {{"code", 0.25}, {"web", 2.5}};
    validated.goodput = 2.0 / 3.0;
    sink.write(validated);
    validated.validation_loss = std::numeric_limits<double>::infinity();
    sink.write(validated);
    sink.flush();
  }
  const auto read = read_metrics(folder / "m.jsonl");
  REQUIRE(read.size() == 4);
  CHECK(read[0] == sample(1));
  CHECK_FALSE(read[0].validation_loss);
  CHECK(read[2].validation_loss == 1.0 / 3.0);
  CHECK(read[2].validation_losses ==
        std::vector<std::pair<std::string, double>>{{"code", 0.25}, {"web", 2.5}});
  CHECK(read[2].goodput == 2.0 / 3.0);
  CHECK_FALSE(read[0].goodput);
  CHECK(std::isnan(read[3].validation_loss.value()));
  CHECK(std::isnan(read[1].loss));
  CHECK_FALSE(read[1].mfu);
  CHECK(read[1].expert_load == ExpertLoad{1.25, 0.5});
  CHECK(read[1].aux_loss == 1.0 / 7.0);
  CHECK_FALSE(read[0].aux_loss);
}

TEST_CASE("a line is there as soon as it is written") {
  const TemporaryFolder folder;
  JsonlSink sink(folder / "m.jsonl", 0);
  sink.write(sample(1));
  CHECK(steps_in(folder / "m.jsonl") == std::vector<int64_t>{1});
}

TEST_CASE("a resumed run leaves one clean sequence") {
  const TemporaryFolder folder;
  const auto path = folder / "m.jsonl";
  {
    JsonlSink sink(path, 0);
    for (int64_t step = 1; step <= 5; ++step) sink.write(sample(step));
  }
  std::ofstream(path, std::ios::app) << R"({"step": 6, "lo)";  // a crash in the middle of a line
  {
    JsonlSink sink(path, 3);
    sink.write(sample(4));
  }
  CHECK(steps_in(path) == std::vector<int64_t>{1, 2, 3, 4});
  { JsonlSink sink(path, 100); }
  CHECK(steps_in(path) == std::vector<int64_t>{1, 2, 3, 4});
  { JsonlSink sink(path, 0); }
  CHECK(steps_in(path).empty());
}

TEST_CASE("an unfinished last line is left out, a wrong line is named") {
  const TemporaryFolder folder;
  const auto path = folder / "m.jsonl";
  std::ofstream(path) << to_json_line(sample(1)) << "\n{\"step\": 2";
  CHECK(steps_in(path) == std::vector<int64_t>{1});
  std::ofstream(path) << to_json_line(sample(1)) << "\n{\"step\": 2}\n";
  CHECK_THROWS_WITH(read_metrics(path), Catch::EndsWith("m.jsonl:2: not a metrics record"));
  CHECK_THROWS_AS(read_metrics(folder / "none"), Error);
}

TEST_CASE("metrics that cannot be written are an error with the file's name") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(JsonlSink(folder / "no/m.jsonl", 0), Catch::Contains("no/m.jsonl"));
}
