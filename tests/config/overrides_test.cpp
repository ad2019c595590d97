#include <catch2/catch.hpp>

#include "am/config/plan.h"

using namespace am;
using namespace am::config;

namespace {

constexpr const char* kPlan = R"([model]
path = "m"
[mesh]
tp_size = 2
[strategy]
mp_policy = { param_dtype = "float32", reduce_dtype = "bfloat16" }
tp_plan = { a = "colwise" }
)";

std::optional<Plan> parse_with(const std::vector<Override>& overrides, Diagnostics& found) {
  return parse_plan(kPlan, "p.toml", overrides, found);
}

Plan overridden(const std::vector<Override>& overrides) {
  Diagnostics found;
  auto plan = parse_with(overrides, found);
  for (const Diagnostic& each : found.items()) UNSCOPED_INFO(each.message);
  REQUIRE(plan);
  return *plan;
}

Diagnostic error_of_override(const std::string& text) {
  Diagnostics found;
  CHECK_FALSE(parse_with({{text}}, found));
  for (const Diagnostic& each : found.items()) UNSCOPED_INFO(each.message);
  REQUIRE(found.items().size() == 1);
  CHECK(found.items()[0].span.file == "--set");
  CHECK(found.items()[0].span.line == 1);
  CHECK(found.items()[0].span.source == text);
  return found.items()[0];
}

}  // namespace

TEST_CASE("overrides replace, add, and the last one wins") {
  const Plan plan = overridden({{"mesh.tp_size=4"},
                                {"mesh.pp_size = 3"},
                                {"train.seq_len=1"},
                                {"mesh.tp_size=8"},
                                {"data.path=[\"a\", \"b\"]"}});
  CHECK(plan.mesh.tp_size == 8);
  CHECK(plan.mesh.pp_size == 3);
  CHECK(plan.train.seq_len == 1);
  CHECK(plan.data.path.size() == 2);
  CHECK(plan.span("mesh.tp_size").file == "--set");
  CHECK(plan.span("mesh.tp_size").column == 14);
}

TEST_CASE("a value in the file that is wrong may be overridden") {
  Diagnostics found;
  const auto plan =
      parse_plan("model.path = \"m\"\nmesh.tp_size = \"x\"", "p.toml", {{"mesh.tp_size=4"}}, found);
  REQUIRE(plan);
  CHECK(plan->mesh.tp_size == 4);
}

TEST_CASE("a bare word is text") {
  CHECK(strategy_name(overridden({{"strategy={name=\"ddp\"}"}}).strategy) == std::string("ddp"));
  const Plan plan = overridden(
      {{"pipeline.schedule=1f1b"}, {"model.path= ../my models/x=y "}, {"cluster.gpu=h100-sxm"}});
  CHECK(plan.pipeline.schedule == "1f1b");
  CHECK(plan.model.path == "../my models/x=y");
  CHECK(plan.cluster.gpu == "h100-sxm");
}

TEST_CASE("parts of an inline table can be set, and a table replaced") {
  const Plan plan = overridden({{"strategy.mp_policy.param_dtype=bf16"}});
  const auto& policy = std::get<FSDP2Config>(plan.strategy).mp_policy;
  CHECK(policy.param_dtype == "bfloat16");
  CHECK(policy.reduce_dtype == "bfloat16");
  CHECK(std::get<FSDP2Config>(overridden({{"strategy.tp_plan={b=\"rowwise\"}"}}).strategy)
            .tp_plan.table.size() == 1);
  CHECK(std::get<FSDP2Config>(overridden({{"strategy.tp_plan=auto"}}).strategy).tp_plan.text ==
        "auto");
}

TEST_CASE("mistakes point into the option's text") {
  Diagnostic error = error_of_override("mesh.tp_szie=4");
  CHECK(error.rule == "plan.key");
  CHECK(error.span.column == 6);
  CHECK(error.help == "did you mean \"tp_size\"?");
  error = error_of_override("mesh.tp_size=two");
  CHECK(error.rule == "plan.type");
  CHECK(error.span.column == 14);
  CHECK(error.span.length == 3);
  CHECK(error_of_override("mesh.tp_size=0").rule == "plan.range");
  CHECK(error_of_override("msh.tp_size=1").help == "did you mean [mesh]?");
  CHECK(error_of_override("pp_size=1").help == "it is a key of [mesh]");
  CHECK(error_of_override("mesh=1").rule == "plan.type");
}

TEST_CASE("what is no assignment says how one is written") {
  for (const char* text : {"mesh.tp_size", "", "=3", "mesh.tp_size=", "mesh..tp_size=x",
                           "mesh.tp_size=[1", "mesh.tp_size=\"1", "mesh.tp_size=1\n[x]"}) {
    CHECK(error_of_override(text).rule == "plan.syntax");
  }
}

TEST_CASE("mistakes in the file and in options are reported together") {
  Diagnostics found;
  CHECK_FALSE(parse_plan("[model\n", "p.toml", {{"mesh.tp_size"}}, found));
  CHECK(found.items().size() == 2);
}
