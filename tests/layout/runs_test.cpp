// Compares the families that am-run runs, and those that are only planned, with the lists in
// README.md and lib/docs/am-plan.md. Also tests which configs are refused.
#include "am/layout/runs.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/model/family.h"
#include "am/rules/check.h"
#include "support/changed_config.h"
#include "support/folders.h"

namespace am::layout {
using namespace rules;

namespace {

// Returns the names in a comma-separated list, for example "llama, mistral,\nphi".
std::set<std::string> names_in(const std::string& list) {
  std::set<std::string> names;
  for (const std::string& name : split(list, ',')) names.emplace(trim(name));
  return names;
}

}  // namespace

// Returns the model types of the families that am-run runs or, if `runs` is false, of the families
// that can only be planned.
std::set<std::string> families_that_run(bool runs) {
  std::set<std::string> families;
  for (const model::Family* family : model::families()) {
    if (family->runs == runs) families.emplace(family->model_type);
  }
  return families;
}

TEST_CASE("README names the families that run, and am-plan's manual those that are only planned") {
  const std::string readme = read_file(cat(test::kSourceFolder, "/README.md"));
  const std::string manual = read_file(cat(test::kSourceFolder, "/lib/docs/am-plan.md"));
  const auto listed = [](const std::string& text, const std::string& begin) {
    const size_t at = text.find(begin);
    REQUIRE(at != std::string::npos);
    const size_t end = text.find('.', at);
    REQUIRE(end != std::string::npos);
    return names_in(text.substr(at + begin.size(), end - at - begin.size()));
  };
  const auto run = families_that_run(true);
  const auto planned = families_that_run(false);
  CHECK(listed(readme, "\nFamilies: ") == run);
  CHECK(listed(manual, "\nPlanned only: ") == planned);
  CHECK(readme.find(cat("\n| ", run.size(), " model families")) != std::string::npos);
  CHECK(readme.find(cat(planned.size(), " more")) != std::string::npos);
}

TEST_CASE("a family that is only planned is refused by its name") {
  for (const model::Family* family : model::families()) {
    if (family->runs) continue;
    model::ModelConfig config;
    config.model_type = family->model_type;
    const std::vector<Limit> limits = limits_of_model(config);
    REQUIRE(limits.size() == 1);
    CHECK(limits[0].what == cat("model_type \"", family->model_type, "\""));
    CHECK(limits[0].help.find("llama, mistral") != std::string::npos);
  }
}

// Returns the features that am-run refuses in a family's config, after `from` is replaced by `to`.
std::set<std::string> limits_of(const std::string& family, const std::string& from = {},
                                const std::string& to = {}) {
  std::set<std::string> what;
  for (const Limit& limit : limits_of_model(test::changed_config(family, from, to)))
    what.insert(limit.what);
  return what;
}

TEST_CASE("a config that would be computed wrongly is refused") {
  using Names = std::set<std::string>;
  CHECK(limits_of("gemma3_text").empty());
  const std::string local = "\"rope_theta\": 10000.0,\n      \"rope_type\": \"";
  CHECK(limits_of("gemma3_text", local + "default", local + "dynamic") ==
        Names{"a rotary embedding of type \"dynamic\""});
  CHECK(limits_of("gemma3_text", "\"use_bidirectional_attention\": false",
                  "\"use_bidirectional_attention\": true") == Names{"non-causal attention"});
  CHECK(limits_of("gemma2", "\"use_bidirectional_attention\": null",
                  "\"use_bidirectional_attention\": true") == Names{"non-causal attention"});
  CHECK(limits_of("gemma3_text", "gelu_pytorch_tanh", "mish") ==
        Names{"hidden_activation \"mish\""});
  CHECK(limits_of("falcon").empty());
  CHECK(limits_of("falcon", "\"alibi\": false", "\"alibi\": true") ==
        Names{"position biases of attention scores (ALiBi) in bfloat16"});
  CHECK(limits_of("mixtral").empty());
  CHECK(limits_of("mixtral", "\"router_jitter_noise\": 0.0", "\"router_jitter_noise\": 0.1") ==
        Names{"router_jitter_noise = 0.1"});
  CHECK(limits_of("gpt_oss").empty());
  CHECK(limits_of("granitemoe").empty());
  CHECK(limits_of("hunyuan_v1_moe").empty());
  CHECK(limits_of("ernie4_5_moe").empty());
  CHECK(limits_of("ernie4_5_moe", "\"use_bias\": false", "\"use_bias\": true") ==
        Names{"experts with biases"});
}

}  // namespace am::layout
