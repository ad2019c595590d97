// A label identifies the collective or message of a round. Ranks compare labels, so that a rank in
// another collective causes an error. Otherwise its peers would wait for it or misinterpret its
// data.
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

// Returns a label. `amount`: number of elements for all-reduce and reduce-scatter; bytes per
// element for all-to-all; otherwise number of bytes.
uint64_t label_of(Kind kind, uint64_t detail, int64_t amount);
uint64_t detail_of(c10::ScalarType dtype, Operation operation);
// Returns the label as text for errors, for example "all_reduce of 12 of Float".
std::string text_of(uint64_t label);

}  // namespace am::runtime::shared_memory
