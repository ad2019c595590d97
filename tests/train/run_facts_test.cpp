// The facts that a resumed run must repeat include every key that changes the model.
#include "am/train/run_facts.h"

#include <catch2/catch.hpp>
#include <string>

#include "am/base/text.h"
#include "am/data/from_plan.h"
#include "support/changed_config.h"
#include "support/plans.h"

namespace am {
namespace {

Json facts_of(const std::string& family, const std::string& from = {}, const std::string& to = {}) {
  const model::ModelConfig config = test::changed_config(family, from, to);
  const config::Plan plan = test::parse(
      cat("[model]\npath = \"hf/", family,
          "\"\n[train]\nseq_len = 16\n[mesh]\nworld_size = 1\n[data]\nkind = \"synthetic\"\n"));
  return train::run_facts(plan, config, data::open_batches(plan, config.vocab_size));
}

}  // namespace

TEST_CASE("facts tell models apart that differ in what is computed alone") {
  struct Change {
    const char* family;
    const char* from;
    const char* to;
    const char* fact;
  };
  const auto change = GENERATE(
      Change{"gemma3_text", "\"query_pre_attn_scalar\": 20", "\"query_pre_attn_scalar\": 12",
             "config.query_scalar"},
      Change{"gemma3_text", "\"rope_theta\": 10000.0", "\"rope_theta\": 500.0",
             "config.local_rope.theta"},
      Change{"gemma3_text", "\"factor\": 8.0", "\"factor\": 4.0", "config.rope.factor"},
      Change{"smollm3", "    1,\n    0\n  ]", "    1,\n    1\n  ]", "config.rotated_layers"});
  INFO(change.fact);
  const Json plain = facts_of(change.family);
  const Json changed = facts_of(change.family, change.from, change.to);
  REQUIRE(plain.contains(change.fact));
  CHECK(plain[change.fact] != changed[change.fact]);
  CHECK(plain == facts_of(change.family));
}

}  // namespace am
