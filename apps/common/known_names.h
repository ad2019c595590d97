// Lists the names that a key may have as its value, where the field table does not list them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace am_apps {

struct KnownName {
  std::string name;
  std::string help = {};  // description; may be empty
};

// Returns the built-in GPUs for "cluster.gpu", the implementations for "cluster.implementation",
// and nothing for other keys.
std::vector<KnownName> known_names(std::string_view key);

}  // namespace am_apps
