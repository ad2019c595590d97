// Tests plan values with a notation of their own: arrays of tables, durations, Megatron's blends.
#include "am/config/table_codec.h"

#include <catch2/catch.hpp>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/config/plan.h"
#include "support/temporary_folder.h"

namespace am::config {
namespace {

struct Parsed {
  std::optional<Plan> plan;
  Diagnostics found;
};

Parsed parse(const std::string& text, const std::string& file = "/p.toml") {
  Parsed parsed;
  parsed.plan = parse_plan("[model]\npath = \"m\"\n" + text, file, {}, parsed.found);
  return parsed;
}

Diagnostic error_of(const std::string& text) {
  const Parsed parsed = parse(text);
  REQUIRE(parsed.found.errors() >= 1);
  return parsed.found.items().front();
}

Plan plan_of(const std::string& text) {
  Parsed parsed = parse(text);
  for (const auto& each : parsed.found.items()) UNSCOPED_INFO(each.message);
  REQUIRE(parsed.plan);
  return *parsed.plan;
}

double seconds_of(const std::string& text) {
  return plan_of(cat("[train]\nmax_time = \"", text, "\"\n")).train.max_time.value();
}

}  // namespace

TEST_CASE("a mixture is written as tables") {
  const Plan plan = plan_of(
      "[[data.source]]\npath = \"a\"\nkind = \"text\"\nweight = 0.7\n"
      "[[data.source]]\npath = [\"b\", \"c\"]\nepochs = 2\n");
  REQUIRE(plan.data.sources.size() == 2);
  CHECK(plan.data.sources[0].path == std::vector<std::string>{"a"});
  CHECK(plan.data.sources[0].weight == 0.7);
  CHECK(plan.data.kind_of(plan.data.sources[0]) == "text");
  CHECK(plan.data.kind_of(plan.data.sources[1]) == "synthetic");
  CHECK(plan.data.sources[1].epochs == 2);
  CHECK(plan.data.has_kind("text"));
  CHECK_FALSE(plan.data.is_synthetic());
}

TEST_CASE("mistakes in tables are reported at their places") {
  const Diagnostic unknown = error_of("[[data.source]]\npath = \"a\"\nwieght = 1\n");
  CHECK(unknown.rule == "plan.key");
  CHECK(unknown.span.line == 5);
  CHECK(unknown.help == "did you mean \"weight\"?");
  const Diagnostic missing = error_of("[[data.source]]\nweight = 1\n");
  CHECK(missing.rule == "plan.required");
  CHECK(missing.message == "data.source.0 has no \"path\"");
  CHECK(error_of("[data.source]\npath = \"a\"\n").help == "legal: write [[data.source]]");
  CHECK(error_of("[[data.source]]\npath = \"a\"\nweight = -1\n").rule == "plan.range");
  CHECK(error_of("[data]\nsource = [3]\n").rule == "plan.type");
  CHECK(error_of("[[optimizer.group]]\nmatch = \"*\"\nname = \"sgd\"\n").rule == "plan.value");
}

TEST_CASE("times are numbers with units") {
  CHECK(seconds_of("23h30m") == 84600.0);
  CHECK(seconds_of("90m") == 5400.0);
  CHECK(seconds_of("1.5h") == 5400.0);
  CHECK(seconds_of("1d1s") == 86401.0);
  for (const char* text : {"", "h", "10", "10 m", "30m2h", "-1h", "0s", "1x", "infs"}) {
    INFO(text);
    CHECK(error_of(cat("[train]\nmax_time = \"", text, "\"\n")).rule == "plan.value");
  }
  CHECK(error_of("[train]\nmax_time = 30\n").rule == "plan.type");
}

TEST_CASE("Megatron's blends become sources") {
  const auto check = [](const Plan& plan) {
    CHECK(plan.data.path.empty());
    REQUIRE(plan.data.sources.size() == 2);
    CHECK(plan.data.sources[0].weight == 0.7);
    CHECK(plan.data.sources[0].path == std::vector<std::string>{"a"});
    CHECK(plan.data.sources[1].weight == 30.0);
    CHECK(plan.data.kind_of(plan.data.sources[1]) == "megatron");
  };
  const std::string kind = "[data]\nkind = \"megatron\"\npath = ";
  check(plan_of(kind + "[\"0.7\", \"a\", \"30\", \"b\"]\n"));
  const TemporaryFolder folder;
  for (const char* json :
       {R"(["0.7", "a", "30", "b"])", R"({"train": [0.7, "a", 30, "b"], "valid": []})"}) {
    write_file_atomically(folder / "blend.json", json);
    check(plan_of(kind + "\"" + (folder / "blend.json").string() + "\"\n"));
  }
  write_file_atomically(folder / "blend.json", "{}");
  const std::string file = (folder / "blend.json").string();
  CHECK(error_of(kind + "\"" + file + "\"\n").message == file + ": this is not a blend");
  write_file_atomically(folder / "blend.json", "[]");
  const Diagnostics found = parse("nothing = 1\n" + kind + "\"" + file + "\"\n").found;
  REQUIRE(found.errors() == 2);
  CHECK(found.items()[1].message == file + ": the blend is empty");
  CHECK(error_of(kind + "\"nothing.json\"\n").rule == "plan.value");
  CHECK(error_of(kind + "[\"0.7\", \"a\", \"b\"]\n").message ==
        "data.path: \"b\" in a blend is not a weight");
  CHECK(error_of(kind + "[\"0.7\", \"a\", \"1\"]\n").rule == "plan.value");
  CHECK(plan_of(kind + "[\"a\", \"b\"]\n").data.path.size() == 2);
}

}  // namespace am::config
