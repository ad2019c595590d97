#include "am/base/shared_library.h"

#include <catch2/catch.hpp>

#include "am/base/error.h"
#include "am/base/text.h"
#include "support/folders.h"

namespace {

using am::parse_plugin_name;

TEST_CASE("a plugin's name is its library and its symbol") {
  const auto plugin = parse_plugin_name("plugins/libmine.so:plan");
  REQUIRE(plugin.has_value());
  CHECK(plugin->library == "plugins/libmine.so");
  CHECK(plugin->symbol == "plan");
  CHECK(parse_plugin_name("libmine.so:")->symbol.empty());
  for (const char* text : {"", "llama", "libmine.so", "transformers.models.llama.Layer", "a:b"}) {
    INFO(text);
    CHECK_FALSE(parse_plugin_name(text).has_value());
  }
}

TEST_CASE("a library that cannot be opened says why, and so does a symbol that is not there") {
  const auto none = am::open_library("/nowhere/libmine.so");
  CHECK(none.handle == nullptr);
  CHECK_THAT(none.problem, Catch::Contains("/nowhere/libmine.so"));
  CHECK(am::find_symbol(none, "good") == nullptr);

  const std::string library = am::cat(am::test::kPluginFolder, "/tp_plan.so");
  CHECK(am::load_symbol(library, "good") == am::find_symbol(am::open_library(library), "good"));
  CHECK_THROWS_WITH(am::load_symbol(library, "absent"),
                    Catch::Contains("no function \"absent\"") && Catch::Contains(library));
  CHECK_THROWS_WITH(am::load_symbol(library, ""), Catch::Contains("no function \"\""));
  CHECK_THROWS_WITH(am::load_symbol("nowhere.so", "x"), Catch::Contains("cannot load"));
}

}  // namespace
