// Tests the rules about a model's weights: files in an unsupported format, and quantised weights.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "am/base/file.h"
#include "am/base/json.h"
#include "am/rules/check.h"
#include "layout/plan_text.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

namespace am {
namespace {

std::vector<Diagnostic> findings(const std::filesystem::path& model, const std::string& rule,
                                 const std::string& weights = "auto") {
  Diagnostics found;
  const auto plan = config::parse_plan(cat("[model]\npath = \"", model.string(), "\"\nweights = \"",
                                           weights, "\"\n[mesh]\nworld_size = 1\n"),
                                       (model / "plan.toml").string(), {}, found);
  REQUIRE(plan.has_value());
  rules::check(*plan, 0, found);
  std::vector<Diagnostic> of_rule;
  for (const Diagnostic& each : found.items()) {
    if (each.rule == rule) of_rule.push_back(each);
  }
  return of_rule;
}

Json small_config() {
  return Json::parse(read_file(cat(test::kSourceFolder, "/plans/models/llama-3.1-8b/config.json")));
}

}  // namespace

TEST_CASE("weights in pickle format alone are no reason to begin with random ones") {
  const TemporaryFolder model;
  std::ofstream(model / "config.json") << small_config().dump();
  std::ofstream(model / "optimizer.pt") << "of an older run";
  CHECK(findings(model.path(), "model.weights").empty());
  std::ofstream(model / "pytorch_model.bin") << "pickled";
  const auto refused = findings(model.path(), "model.weights");
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].severity == Severity::kError);
  CHECK(refused[0].message.find("pytorch_model.bin") != std::string::npos);
  CHECK(refused[0].help.find("weights = \"none\"") != std::string::npos);
  CHECK(findings(model.path(), "model.weights", "none").empty());
  std::ofstream(model / "model.safetensors") << "both formats: that one is read";
  CHECK(findings(model.path(), "model.weights").empty());
}

TEST_CASE("a config of quantised weights gets a note") {
  const TemporaryFolder model;
  Json quantised = small_config();
  quantised["quantization_config"] = {{"quant_method", "fp8"}};
  std::ofstream(model / "config.json") << quantised.dump();
  const auto noted = findings(model.path(), "model.quantized");
  REQUIRE(noted.size() == 1);
  CHECK(noted[0].severity == Severity::kNote);
  CHECK(noted[0].message.find("fp8") != std::string::npos);
  CHECK(findings(model.path(), "model.quantized", "none").empty());
  std::ofstream(model / "config.json") << small_config().dump();
  CHECK(findings(model.path(), "model.quantized").empty());
}

}  // namespace am
