// The copies of a tensor's parts on all ranks: their checksums, and the first difference between
// them.
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
  bool first = false;  // the copies with `first` set cover the tensor once
};

// Returns every copy of every part on every rank; for tensors at rest, the stored parts.
// Collective.
std::vector<Copy> copies_of(Session& session, const Picked& picked);

struct CopyDifference {
  std::vector<int64_t> index;  // in the whole tensor, of the part's first differing element
  std::vector<int64_t> ranks;  // ranks that differ from the majority
  int64_t against = 0;         // a rank of the majority; on a tie, the lowest rank
};

// Returns the first difference among parts whose copies have different checksums. Collective.
std::optional<CopyDifference> first_difference(Session& session, const Picked& picked,
                                               const std::vector<Copy>& copies);

}  // namespace am::values
