// What `export` and `import` share: the other framework, and what is said about its files.
#pragma once

#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/exchange/exchange.h"
#include "common/output.h"

namespace CLI {
class App;
}

namespace am_plan {

// A required option, "--to" or "--from", whose value is a framework's name.
void add_framework(CLI::App& command, const char* name, const char* help, std::string& framework);
// The framework of such a value.
const am::exchange::Framework& framework_of(const std::string& name);

// What was not carried over (exchange::Lost or Ignored): [{"key", "value", "why"}]. Their values
// are JSON already.
template <typename Item>
am::Json to_json(const std::vector<Item>& items) {
  am::Json list = am::Json::array();
  for (const Item& item : items) {
    list.push_back({{"key", item.key}, {"value", am::Json::parse(item.value)}, {"why", item.why}});
  }
  return list;
}

// On stderr, one line each.
void print_notes(const std::vector<std::string>& notes, const am_apps::Output& output);

}  // namespace am_plan
