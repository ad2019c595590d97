#include "am/values/commands/by_layer.h"

#include <map>

#include "am/base/text.h"
#include "am/inspect/layers.h"
#include "am/inspect/pick.h"
#include "am/values/scan.h"

namespace am::values {

bool by_layer(const Arguments& arguments) {
  const std::string by = arguments.value("--by", "parameter");
  if (by == "parameter") return false;
  if (by == "layer") return true;
  throw Error(ErrorKind::kUsage, cat("--by `", by, "`: parameter or layer"));
}

std::vector<NamedMoments> named_moments(Session& session, const Arguments& arguments,
                                        Moments* total) {
  const bool folded = by_layer(arguments);
  std::vector<NamedMoments> all;
  std::map<std::string, size_t> places;
  for (const Picked& picked : pick_all(session, arguments.words)) {
    const std::string name = folded ? layer_of(picked.parameter->name) : picked.label;
    const auto [place, is_new] = places.emplace(name, all.size());
    if (is_new) all.push_back({name, {}});
    const Moments own = moments_of(session, picked);
    all[place->second].moments.merge(own);
    if (total != nullptr) total->merge(own);
  }
  return all;
}

}  // namespace am::values
