// The option `--by layer` of several commands.
#pragma once

#include <string>
#include <vector>

#include "am/inspect/command.h"
#include "am/values/moments.h"
#include "am/values/parameter_view.h"
#include "am/values/unread.h"

namespace am::values {

// Whether --by is "layer". Throws Error(kUsage) for values other than layer and parameter.
bool by_layer(const Arguments& arguments);

struct NamedMoments {
  std::string name;  // of a tensor, with its slice, or of a layer
  Moments moments;
};

struct MomentRows {
  std::vector<NamedMoments> rows;  // in order of first appearance
  Moments total;
  Unread unread;
};

// Returns the moments of each named tensor, or of each layer, and of all together. Collective.
MomentRows named_moments(Session& session, const Arguments& arguments);

}  // namespace am::values
