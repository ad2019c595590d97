// Bugs and delays that can be injected at run time, one at a time, to show that checks detect
// them: `am-run PLAN --verify-layout --fault tp_input_sum`, and the tests.
//
//   const fault::Planted fault(fault::Fault::kTpInputSum);
//   // from here on the gradient of column-wise layers' input is not summed over tp
//
// Each line of code that a fault can make wrong costs one relaxed atomic load, whether or not the
// fault is injected.
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
  kFp8LocalScale,
  kLabelsOfRank,
  kLabelsOfMicroBatch,
  kLabelsOfCpPart,
  kLabelsOfPadding,
  kMaskShifted,
  kValidationTwice,
  kUncheckedId,
  kSlowRank,
  kSlowData,
  kSlowDisk,
};

struct Description {
  Fault fault;
  std::string_view name;  // name on the command line, for example "tp_input_sum"
  std::string_view what;  // phrase that describes the wrong behaviour
};

// All faults, in the order of the enum.
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

// Injects a fault into the process while this object exists. At most one such object may exist.
class Planted {
 public:
  explicit Planted(Fault fault) { detail::planted = static_cast<int>(fault); }
  ~Planted() { detail::planted = detail::kNone; }
  Planted(const Planted&) = delete;
  Planted& operator=(const Planted&) = delete;
};

}  // namespace am::fault
