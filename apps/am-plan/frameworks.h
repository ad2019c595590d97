// The option of `am-plan check`, `export` and `import` that names the other framework, and the
// printed notes about a conversion.
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

// Adds the option `name`, which is "--to" or "--from". Its value is a framework's name.
void add_framework(CLI::App& command, const char* name, const char* help, std::string& framework,
                   bool required = true);
// Returns the framework with this name. The name must be known: the option of add_framework()
// accepts only known names.
const am::frameworks::Framework& framework_of(const std::string& name);

// Converts the settings that a conversion dropped (`Item` is frameworks::Lost or
// frameworks::Ignored) to a list of {"key", "value", "why"}. Each item's value must be JSON text.
template <typename Item>
am::Json to_json(const std::vector<Item>& items) {
  am::Json list = am::Json::array();
  for (const Item& item : items) {
    list.push_back({{"key", item.key}, {"value", am::Json::parse(item.value)}, {"why", item.why}});
  }
  return list;
}

// Prints each note to stderr, as a line that begins with "note: ". Wraps long lines.
void print_notes(const std::vector<std::string>& notes, const am_apps::Output& output);

}  // namespace am_plan
