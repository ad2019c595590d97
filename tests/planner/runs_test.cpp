// What runs, and what README says of it.
#include "am/planner/runs.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <sstream>
#include <string>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/model/family.h"
#include "am/planner/rules.h"
#include "support/changed_config.h"

namespace am::planner {
namespace {

// The names before the colon of a cell "llama, mistral: logits ...".
std::set<std::string> names_in(const std::string& cell) {
  std::set<std::string> names;
  std::istringstream text(cell.substr(0, cell.find(':')));
  for (std::string name; std::getline(text, name, ',');) {
    const auto first = name.find_first_not_of(' ');
    name = name.substr(first, name.find_last_not_of(' ') - first + 1);
    if (!starts_with(name, "and ")) names.insert(name);
  }
  return names;
}

}  // namespace

TEST_CASE("README names the families that are planned and those that run") {
  const std::string readme = read_file(cat(AM_SOURCE_DIR, "/README.md"));
  const size_t row = readme.find("\n| models |");
  REQUIRE(row != std::string::npos);
  std::istringstream cells(readme.substr(row + 1, readme.find('\n', row + 1) - row));
  std::string cell, planned, running;
  std::getline(cells, cell, '|');  // nothing
  std::getline(cells, cell, '|');  // "models"
  std::getline(cells, planned, '|');
  std::getline(cells, running, '|');
  std::set<std::string> families;
  for (const model::Family* family : model::families()) families.emplace(family->model_type);
  CHECK(names_in(planned) == families);
  const auto runs = runnable_families();
  CHECK(names_in(running) == std::set<std::string>(runs.begin(), runs.end()));
}

TEST_CASE("the rules' texts name the families that do not run") {
  const auto runs = runnable_families();
  for (const char* id : {"runtime.unsupported", "model.family"}) {
    const Rule* rule = find_rule(id);
    REQUIRE(rule != nullptr);
    for (const model::Family* family : model::families()) {
      INFO(id << ": " << family->model_type);
      const bool run = std::find(runs.begin(), runs.end(), family->model_type) != runs.end();
      const bool named =
          rule->explain.find(cat("but ", family->model_type)) != std::string_view::npos;
      CHECK(named == !run);
    }
  }
}

// By the keys of the config that am-run refuses.
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
                  "\"use_bidirectional_attention\": true") == Names{"attention that looks ahead"});
  CHECK(limits_of("gemma2", "\"use_bidirectional_attention\": null",
                  "\"use_bidirectional_attention\": true") == Names{"attention that looks ahead"});
  CHECK(limits_of("gemma3_text", "gelu_pytorch_tanh", "relu") ==
        Names{"hidden_activation \"relu\""});
  CHECK(limits_of("falcon").empty());
  CHECK(limits_of("falcon", "\"alibi\": false", "\"alibi\": true") ==
        Names{"positions as biases of the scores (alibi)"});
  CHECK(limits_of("mixtral").empty());
  CHECK(limits_of("mixtral", "\"router_jitter_noise\": 0.0", "\"router_jitter_noise\": 0.1") ==
        Names{"router_jitter_noise = 0.1"});
  CHECK(limits_of("gpt_oss").empty());
}

}  // namespace am::planner
