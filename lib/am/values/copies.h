// Computes checksums of all copies of a tensor's parts on all ranks, and finds the first difference
// between copies.
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
  uint64_t sum = 0;    // checksum() of the copy's values
  bool first = false;  // set for one copy of each part, so that these copies cover the tensor once
};

// Returns all copies of the tensor's parts on all ranks. In files, each stored part is one copy.
// Collective.
std::vector<Copy> copies_of(Session& session, const inspect::Picked& picked);

struct CopyDifference {
  // Index of the first differing element in the full tensor; empty if the difference has vanished.
  std::vector<int64_t> index;
  std::vector<int64_t> ranks;  // ranks whose copies differ from the majority's
  int64_t against = 0;         // a rank whose copy is the majority's; on a tie, the lowest rank
};

// Returns the first difference among parts whose copies have different checksums. Collective.
std::optional<CopyDifference> first_difference(Session& session, const inspect::Picked& picked,
                                               const std::vector<Copy>& copies);

}  // namespace am::values
