#include "common/known_names.h"

#include "am/cluster/hardware.h"
#include "am/cluster/implementation.h"

namespace am_apps {

std::vector<KnownName> known_names(std::string_view key) {
  std::vector<KnownName> names;
  if (key == "cluster.gpu") {
    for (const std::string& name : am::cluster::gpu_names()) names.push_back({name});
  } else if (key == "cluster.implementation") {
    for (const auto& each : am::cluster::implementations()) {
      names.push_back({each.name, each.description});
    }
  }
  return names;
}

}  // namespace am_apps
