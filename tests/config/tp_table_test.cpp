#include "am/config/tp_table.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include "am/base/file.h"
#include "am/base/text.h"

using namespace am;
using namespace am::config;
namespace fs = std::filesystem;

namespace {

using Table = std::vector<std::pair<std::string, std::string>>;

const Span kWhere{"p.toml", 5, 11, 9, "tp_plan = \"tp.toml\""};

Table load(const std::string& text, Diagnostics& found) {
  const fs::path path = fs::temp_directory_path() / cat("am_tp_table_test_", ::getpid(), ".toml");
  write_file_atomically(path, text);
  Table table;
  for (auto& entry : load_tp_table(path, kWhere, found)) {
    table.emplace_back(std::move(entry.pattern), std::move(entry.style));
  }
  fs::remove(path);
  return table;
}

}  // namespace

TEST_CASE("a table at the top level or under [tp_plan], in the file's order") {
  Diagnostics found;
  const Table expected = {{"model.*.q_proj", "colwise"}, {"lm_head", "colwise_rep"}};
  CHECK(load("\"model.*.q_proj\" = \"colwise\"\nlm_head = \"colwise_rep\"\n", found) == expected);
  CHECK(load("[tp_plan]\n\"model.*.q_proj\" = \"colwise\"\nlm_head = \"colwise_rep\"\n", found) ==
        expected);
  CHECK(found.empty());
}

TEST_CASE("an entry remembers its line, and dotted keys are one pattern") {
  Diagnostics found;
  const auto entries = parse_tp_table("model.norm = \"sequence_parallel\"\nlm_head = \"colwise\"\n",
                                      "tp.toml", kWhere, found);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].pattern == "model.norm");
  CHECK(entries[0].where.line == 1);
  CHECK(entries[1].where.file == "tp.toml");
  CHECK(entries[1].where.line == 2);
  CHECK(entries[1].where.column == 11);
}

TEST_CASE("what is wrong in the file is reported in the file") {
  Diagnostics found;
  CHECK(load("[tp_plan]\na = 3\nb = \"x\"\nc = []\n", found).empty());
  REQUIRE(found.items().size() == 2);
  CHECK(found.items()[0].rule == "plan.type");
  CHECK(found.items()[0].span.line == 2);
  CHECK(found.items()[0].span.file.find("am_tp_table_test_") != std::string::npos);
  Diagnostics syntax;
  CHECK(load("[tp_plan\n", syntax).empty());
  CHECK(syntax.items()[0].rule == "plan.syntax");
  Diagnostics type;
  CHECK(load("tp_plan = 3\n", type).empty());
  CHECK(type.items()[0].rule == "plan.type");
}

TEST_CASE("a file that is missing or has no table is reported where it was named") {
  Diagnostics found;
  CHECK(load_tp_table("/no/such/tp.toml", kWhere, found).empty());
  CHECK(load("", found).empty());
  REQUIRE(found.items().size() == 2);
  for (const Diagnostic& each : found.items()) {
    CHECK(each.rule == "tp.plan");
    CHECK(each.span.file == "p.toml");
    CHECK(each.span.line == 5);
  }
  CHECK(found.items()[0].message.find("/no/such/tp.toml: cannot read") == 0);
}
