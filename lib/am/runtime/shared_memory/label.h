// A label identifies the collective or message to which a round (rounds.h) belongs. Each rank
// compares its label with those of its peers, and reports an error if a peer is in another
// collective. Without labels, the rank would wait for the peer or misinterpret the peer's data.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>

#include "am/runtime/shared_memory/combine.h"

namespace am::runtime::shared_memory {

enum class Kind : uint8_t {
  kAllGather = 1,
  kReduceScatter,
  kAllReduce,
  kBroadcast,
  kAllToAll,
  kMessage,
};

// Returns a label. `detail`: detail_of() for all-reduce and reduce-scatter, the root's index for
// broadcast, the dtype for a message, otherwise 0. `amount`: number of elements for all-reduce and
// reduce-scatter; bytes per element for all-to-all; otherwise number of bytes.
uint64_t label_of(Kind kind, uint64_t detail, int64_t amount);
// Returns the `detail` of a reduction's label.
uint64_t detail_of(c10::ScalarType dtype, Operation operation);
// Returns the label as text for errors, for example "all_reduce of 12 elements of Float".
std::string text_of(uint64_t label);

}  // namespace am::runtime::shared_memory
