// Which rank holds which copy of a tensor's parts, what its checksum is, and where two first
// differ.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "am/inspect/pick.h"
#include "am/inspect/session.h"
#include "am/values/parameter_view.h"

namespace am::values {

struct Copy {
  int64_t rank = 0;
  mesh::Box box;
  uint64_t sum = 0;    // checksum()
  bool first = false;  // those that are cover the tensor once
};

// Every copy of every part, on every rank; at rest the parts that were saved. Collective.
std::vector<Copy> copies_of(Session& session, const Picked& picked);

struct CopyDifference {
  std::vector<int64_t> index;  // the first element, in row-major order of the part, that differs
  std::vector<int64_t> ranks;  // that hold other bits than most
  int64_t against = 0;         // a rank of most; where both are as many, the lowest rank
};

// Of the parts that several ranks hold with different checksums, the first. Collective.
std::optional<CopyDifference> first_difference(Session& session, const Picked& picked,
                                               const std::vector<Copy>& copies);

}  // namespace am::values
