#include "am/runtime/shared_memory/label.h"

#include "am/base/text.h"

namespace am::runtime::shared_memory {

uint64_t label_of(Kind kind, uint64_t detail, int64_t amount) {
  return static_cast<uint64_t>(kind) << 56 | (detail & 0xFFFF) << 40 |
         (static_cast<uint64_t>(amount) & 0xFFFFFFFFFF);
}

uint64_t detail_of(c10::ScalarType dtype, Operation operation) {
  return static_cast<uint64_t>(dtype) << 8 | static_cast<uint64_t>(operation);
}

namespace {

std::string dtype_text(uint64_t number) {
  return c10::toString(static_cast<c10::ScalarType>(number));
}

}  // namespace

std::string text_of(uint64_t label) {
  const uint64_t amount = label & 0xFFFFFFFFFF;
  const uint64_t detail = label >> 40 & 0xFFFF;
  switch (static_cast<Kind>(label >> 56)) {
    case Kind::kAllGather:
      return cat("all_gather of ", amount, " bytes");
    case Kind::kReduceScatter:
      return cat("reduce_scatter of ", amount, " elements of ", dtype_text(detail >> 8));
    case Kind::kAllReduce:
      return cat("all_reduce of ", amount, " elements of ", dtype_text(detail >> 8));
    case Kind::kBroadcast:
      return cat("broadcast of ", amount, " bytes from index ", detail);
    case Kind::kAllToAll:
      return cat("all_to_all of elements of ", amount, " bytes");
    case Kind::kMessage:
      return cat("message of ", amount, " bytes of ", dtype_text(detail));
  }
  return "none";
}

}  // namespace am::runtime::shared_memory
