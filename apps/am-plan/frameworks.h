// Shared parts of `export` and `import`: the framework option, and notes about its files.
#pragma once

#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/frameworks/exchange.h"
#include "common/output.h"

namespace CLI {
class App;
}

namespace am_plan {

// Adds a required option, "--to" or "--from", whose value is a framework's name.
void add_framework(CLI::App& command, const char* name, const char* help, std::string& framework);
// Returns the framework with this name.
const am::frameworks::Framework& framework_of(const std::string& name);

// Converts what was not carried over (frameworks::Lost or Ignored) to [{"key", "value", "why"}].
// The items' values must be JSON.
template <typename Item>
am::Json to_json(const std::vector<Item>& items) {
  am::Json list = am::Json::array();
  for (const Item& item : items) {
    list.push_back({{"key", item.key}, {"value", am::Json::parse(item.value)}, {"why", item.why}});
  }
  return list;
}

// Prints to stderr, one line each.
void print_notes(const std::vector<std::string>& notes, const am_apps::Output& output);

}  // namespace am_plan
