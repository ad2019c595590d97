#include "am/parallel/unit_place.h"

#include "am/base/text.h"

namespace am::parallel {

void UnitPlace::set(size_t at) {
  static std::atomic<uint64_t> now{0};
  since_ = ++now;
  at_ = at;
}

std::string UnitPlace::text() const {
  const size_t at = at_;
  if (at == kNowhere) return {};
  return cat("the ", at % 2 == 0 ? "forward" : "backward", " of ", names_.at(at / 2));
}

}  // namespace am::parallel
