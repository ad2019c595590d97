// Lists the names of GPUs and of implementations, as values of a plan's keys. The table of the keys
// (config/field.h) does not contain these names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace am_apps {

struct KnownName {
  std::string name;
  std::string help = {};  // description; may be empty
};

// Returns the names of the built-in GPUs for the key "cluster.gpu", and the names of the
// implementations for the key "cluster.implementation". Returns an empty list for other keys.
std::vector<KnownName> known_names(std::string_view key);

}  // namespace am_apps
