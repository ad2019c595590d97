// Computes checksums of all replicas of the shards of a tensor, and finds the first difference
// between replicas.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "am/inspect/pick.h"
#include "am/inspect/session.h"
#include "am/values/parameter_view.h"

namespace am::values {

// One replica of one shard of a tensor.
struct Copy {
  int64_t rank = 0;
  mesh::Box box;
  uint64_t sum = 0;    // tensor::checksum() of the copy's values
  bool first = false;  // over all ranks, copies with this flag contain each element once
};

// Returns all replicas of all shards of the picked tensor, or their parts in the picked slice. All
// ranks return the same list. For a tensor in files, returns one copy per stored shard. Collective.
std::vector<Copy> copies_of(Session& session, const inspect::Picked& picked);

struct CopyDifference {
  // Index of the first differing element in the full tensor, one number per dim. Empty if the
  // copies have become equal since their checksums were computed.
  std::vector<int64_t> index;
  std::vector<int64_t> ranks;  // ranks whose copies differ from the copy of rank `against`
  int64_t against = 0;         // lowest rank with a most frequent checksum
};

// Returns the difference in the first shard whose replicas have different checksums; nullopt if all
// replicas are equal. `copies`: the result of copies_of(). Collective.
std::optional<CopyDifference> first_difference(Session& session, const inspect::Picked& picked,
                                               const std::vector<Copy>& copies);

}  // namespace am::values
