#include "am/values/commands/by_layer.h"

#include <map>

#include "am/base/text.h"
#include "am/inspect/layers.h"
#include "am/inspect/pick.h"
#include "am/values/scan.h"

namespace am::values {

bool by_layer(const inspect::Arguments& arguments) {
  const std::string by = arguments.value("--by", "parameter");
  if (by == "parameter") return false;
  if (by == "layer") return true;
  throw Error(ErrorKind::kUsage, cat("--by: expected parameter or layer, not `", by, "`"));
}

MomentRows named_moments(Session& session, const inspect::Arguments& arguments) {
  const bool folded = by_layer(arguments);
  const std::vector<inspect::Picked> all = pick_all(session, arguments.words);
  MomentRows found{{}, {}, Unread(session, all.size())};
  session.expect_bytes(bytes_of(all));
  std::map<std::string, size_t> places;
  for (const inspect::Picked& picked : all) {
    Moments own;
    if (!found.unread.read(picked.label, [&] { own = moments_of(session, picked); })) continue;
    const std::string name = folded ? inspect::layer_of(picked.parameter->name) : picked.label;
    const auto [place, is_new] = places.emplace(name, found.rows.size());
    if (is_new) found.rows.push_back({name, {}});
    found.rows[place->second].moments.merge(own);
    found.total.merge(own);
  }
  return found;
}

}  // namespace am::values
