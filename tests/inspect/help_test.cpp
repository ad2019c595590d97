// Tests that `help` lists every command once, in groups whose names are not commands.
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "am/base/text.h"
#include "am/inspect/command.h"

namespace am::inspect {
namespace {

Json help_of(const std::string& input) {
  const auto outcome = execute_without_session(input, term::Style::plain());
  REQUIRE(outcome.has_value());
  REQUIRE(outcome->ok());
  return outcome->result.json;
}

TEST_CASE("every command is in one group of help") {
  const Command* help = find_command("help");
  REQUIRE(help != nullptr);
  std::map<std::string, int> listed;
  for (const std::string& group : split(std::string(help->keywords), ' ')) {
    INFO(group);
    CHECK(find_command(group) == nullptr);
    const Json answer = help_of("help " + group);
    for (const Json& each : answer.at("commands")) ++listed[each.at("usage").get<std::string>()];
  }
  for (const Command* command : commands()) {
    INFO(command->name);
    CHECK(listed[command->usage()] == 1);
  }
  CHECK(listed.size() == commands().size());
}

}  // namespace
}  // namespace am::inspect
