#include "am/config/schema.h"

#include <catch2/catch.hpp>

#include "am/base/text.h"
#include "am/config/field.h"

using namespace am;
using namespace am::config;

TEST_CASE("the schema describes every key with its type and default") {
  const Json schema = schema_json();
  CHECK(schema["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  CHECK(schema["additionalProperties"] == false);
  CHECK(schema["required"] == Json::array({"model"}));
  for (const FieldSpec& field : fields()) {
    INFO(field.name());
    const Json& section = schema["properties"][field.section];
    CHECK(section["additionalProperties"] == false);
    REQUIRE(section["properties"].contains(field.key));
    const Json& property = section["properties"][field.key];
    CHECK_FALSE(property["description"].get<std::string>().empty());
    CHECK((property.contains("type") || property.contains("enum") || property.contains("anyOf")));
  }
  const Json& tp_size = schema["properties"]["mesh"]["properties"]["tp_size"];
  CHECK(tp_size["type"] == "integer");
  CHECK(tp_size["minimum"] == 1);
  CHECK(tp_size["default"] == 1);
  const Json& schedule = schema["properties"]["pipeline"]["properties"]["schedule"];
  CHECK(schedule["anyOf"][0]["enum"][1] == "1f1b");
  CHECK(schedule["anyOf"][1]["pattern"] == "\\.csv$");
}

TEST_CASE("each strategy allows its own keys in the schema") {
  const Json conditions = schema_json()["properties"]["strategy"]["allOf"];
  REQUIRE(conditions.size() == 4);
  for (const Json& condition : conditions) {
    const std::string name = condition["if"]["properties"]["name"]["const"];
    CHECK(condition["then"]["propertyNames"]["enum"] == Json(section_keys("strategy", name)));
    CHECK(condition["if"].contains("required") == (name != "fsdp2"));  // absent means the default
  }
}

TEST_CASE("the reference names every key, and the table says something of each") {
  const std::string text = plan_reference();
  for (const FieldSpec& field : fields()) {
    INFO(field.name());
    CHECK(text.find("| `" + field.key + "` | ") != std::string::npos);
    CHECK(field.help.size() > 10);
    CHECK(ends_with(field.help, "."));
    CHECK_FALSE(field.type.empty());
  }
  CHECK(text.find("| `path` | path | required |") != std::string::npos);
}
