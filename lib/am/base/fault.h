// Mistakes that can be planted in the parallel code while it runs, one at a time, to show that what
// checks it sees them: `am-run PLAN --verify-layout --fault tp_input_sum`, and the tests.
//
//   const fault::Planted fault(fault::Fault::kTpInputSum);
//   // from here on the gradient of column-wise layers' input is not summed over tp
//
// Each is read in one place, where the mistake would be made: one relaxed load.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace am::fault {

enum class Fault : uint8_t {
  kTpInputSum,
  kTpHeadNormSum,
  kTpKeyHeadSum,
  kTpBiasEach,
  kTpVocabOffset,
  kSpNormSum,
  kMlaRopeKey,
  kCpPositions,
  kCpRingOrder,
  kCpLse,
  kCpKeyHome,
  kCpSinks,
  kDpDivide,
  kAccumulateLast,
  kPpTiedSum,
  kPpSwap,
  kPpWeightLost,
  kPpLossTwice,
  kEpUnpermute,
  kEpRouterSum,
  kEpDivide,
  kEpPadding,
  kNormReplicas,
  kNormExperts,
  kLoraSharedSum,
  kInitLocal,
  kHsdpReplicas,
  kWindowLocal,
  kReplicaBit,
  kUncheckedId,
};

struct Description {
  Fault fault;
  std::string_view name;  // "tp_input_sum"
  std::string_view what;  // is done wrong: a phrase
};

// All of them, in the order of their numbers.
std::span<const Description> all();
const Description& describe(Fault fault);
std::optional<Fault> find(std::string_view name);

namespace detail {
inline constexpr int kNone = -1;
inline std::atomic<int> planted{kNone};
}  // namespace detail

inline bool is_planted(Fault fault) noexcept {
  return detail::planted.load(std::memory_order_relaxed) == static_cast<int>(fault);
}

// In the whole process, while it lives. One at a time.
class Planted {
 public:
  explicit Planted(Fault fault) { detail::planted = static_cast<int>(fault); }
  ~Planted() { detail::planted = detail::kNone; }
  Planted(const Planted&) = delete;
  Planted& operator=(const Planted&) = delete;
};

}  // namespace am::fault
