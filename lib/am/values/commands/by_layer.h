// Implements the option `--by layer` of several commands.
#pragma once

#include <string>
#include <vector>

#include "am/inspect/command.h"
#include "am/values/moments.h"
#include "am/values/parameter_view.h"
#include "am/values/unread.h"

namespace am::values {

// Returns whether the value of --by is "layer". Throws Error(kUsage) for values other than layer
// and parameter.
bool by_layer(const inspect::Arguments& arguments);

struct NamedMoments {
  std::string name;  // name of a tensor, with its slice if any, or of a layer
  Moments moments;
};

struct MomentRows {
  std::vector<NamedMoments> rows;  // one row per name, in the order in which names first appear
  Moments total;
  Unread unread;
};

// Returns the statistics (Moments) of each tensor that the arguments name, and of all these tensors
// together. If --by is "layer", the tensors of a layer share one row. Collective.
MomentRows named_moments(Session& session, const inspect::Arguments& arguments);

}  // namespace am::values
