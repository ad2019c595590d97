// `--by layer`, which several commands take.
#pragma once

#include <string>
#include <vector>

#include "am/inspect/command.h"
#include "am/values/moments.h"
#include "am/values/parameter_view.h"

namespace am::values {

// Throws Error(kUsage) for --by's other values.
bool by_layer(const Arguments& arguments);

struct NamedMoments {
  std::string name;  // a tensor's, with its slice, or a layer's
  Moments moments;
};

// Of each tensor that the words name, or of each layer, in the order in which they come; `total`,
// where it is not null, is of all of them. Collective.
std::vector<NamedMoments> named_moments(Session& session, const Arguments& arguments,
                                        Moments* total = nullptr);

}  // namespace am::values
