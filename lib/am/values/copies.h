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
  uint64_t sum = 0;    // checksum() of the copy's values
  bool first = false;  // set for one replica of each shard; together these cover the tensor
};

// Returns all replicas of all shards of the tensor, on all ranks. For a tensor in files, returns
// one copy per stored shard. Collective.
std::vector<Copy> copies_of(Session& session, const inspect::Picked& picked);

struct CopyDifference {
  // Index of the first differing element in the full tensor; empty if the copies have become equal
  // in the meantime.
  std::vector<int64_t> index;
  std::vector<int64_t> ranks;  // ranks whose copies differ from the majority's
  int64_t against = 0;         // a rank with the majority's copy; on a tie, the lowest rank
};

// Returns the first difference between replicas with different checksums; nothing if there is none.
// Collective.
std::optional<CopyDifference> first_difference(Session& session, const inspect::Picked& picked,
                                               const std::vector<Copy>& copies);

}  // namespace am::values
