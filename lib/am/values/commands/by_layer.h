// `--by layer`, which several commands take.
#pragma once

#include <string>
#include <vector>

#include "am/inspect/command.h"
#include "am/values/moments.h"
#include "am/values/parameter_view.h"
#include "am/values/unread.h"

namespace am::values {

// Throws Error(kUsage) for --by's other values.
bool by_layer(const Arguments& arguments);

struct NamedMoments {
  std::string name;  // a tensor's, with its slice, or a layer's
  Moments moments;
};

struct MomentRows {
  std::vector<NamedMoments> rows;  // in the order in which the names come
  Moments total;
  Unread unread;
};

// Of each tensor that the words name, or of each layer, and of all of them. Collective.
MomentRows named_moments(Session& session, const Arguments& arguments);

}  // namespace am::values
