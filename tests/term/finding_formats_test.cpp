// Tests the output of findings in the formats of gcc, GitHub Actions and SARIF.
#include "am/term/finding_formats.h"

#include <array>
#include <catch2/catch.hpp>

namespace am::term {
namespace {

Diagnostics sample() {
  Diagnostics found;
  found.error("tp.heads", {"my plans/ü,1.toml", 3, 5, 7, "tp_size = 3"}, "100 % wrong", "1 or 2");
  found.warning("plan.file", {"gone.toml", 0, 0, 1, {}}, "two\nlines");
  found.add({"x.y", Severity::kNote, {}, "a note", ""});
  return found;
}

}  // namespace

TEST_CASE("findings as gcc's messages") {
  CHECK(gcc_text(sample()) ==
        "my plans/ü,1.toml:3:5: error: 100 % wrong [tp.heads]\n"
        "my plans/ü,1.toml:3:5: note: 1 or 2\n"
        "gone.toml: warning: two?lines [plan.file]\n"
        "am-plan: note: a note [x.y]\n");
  CHECK(gcc_text({}).empty());
}

TEST_CASE("findings as workflow commands of GitHub Actions") {
  CHECK(github_text(sample()) ==
        "::error file=my plans/ü%2C1.toml,line=3,col=5,endColumn=12,title=tp.heads::"
        "100 %25 wrong%0Ahelp: 1 or 2\n"
        "::warning file=gone.toml,title=plan.file::two?lines\n"
        "::notice title=x.y::a note\n");
}

TEST_CASE("findings as SARIF") {
  const std::array<Diagnostics, 2> both = {sample(), sample()};
  const std::array<FindingRule, 2> rules = {
      FindingRule{"tp.heads", "heads are divisible", "Each rank has whole heads."},
      FindingRule{"unused", "", ""}};
  const Json log = sarif(both, rules, "1.2.3");
  CHECK(log["version"] == "2.1.0");
  const Json& run = log["runs"][0];
  const Json& driver = run["tool"]["driver"];
  CHECK(driver["version"] == "1.2.3");
  REQUIRE(driver["rules"].size() == 3);  // only rules with findings
  CHECK(driver["rules"][0] ==
        Json({{"id", "tp.heads"},
              {"shortDescription", {{"text", "heads are divisible"}}},
              {"fullDescription", {{"text", "Each rank has whole heads."}}}}));
  REQUIRE(run["results"].size() == 6);
  const Json& first = run["results"][0];
  CHECK(first["ruleId"] == "tp.heads");
  CHECK(first["level"] == "error");
  CHECK(first["message"]["text"] == "100 % wrong\nhelp: 1 or 2");
  const Json& place = first["locations"][0]["physicalLocation"];
  CHECK(place["artifactLocation"]["uri"] == "my%20plans/%C3%BC%2C1.toml");
  CHECK(place["region"] == Json({{"startLine", 3}, {"startColumn", 5}, {"endColumn", 12}}));
  CHECK_FALSE(run["results"][1]["locations"][0]["physicalLocation"].contains("region"));
  CHECK_FALSE(run["results"][2].contains("locations"));
  CHECK(run["results"][3]["ruleIndex"] == 0);
  CHECK(run["results"][5]["ruleIndex"] == 2);
}

}  // namespace am::term
