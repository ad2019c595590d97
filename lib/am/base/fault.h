// Faults: bugs and delays that can be injected at run time, one at a time, to show that checks
// detect them. `am-run PLAN --verify-layout --fault tp_input_sum` injects a fault, and tests inject
// faults by the class Planted.
//
//   const fault::Planted fault(fault::Fault::kTpInputSum);
//   // from here on the gradient of column-wise layers' input is not summed over tp
//
// The code that a fault changes calls is_planted(), which costs one relaxed atomic load.
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

// Returns all faults, in the order of the enum.
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

// Injects a fault into the process while this object exists. At most one Planted may exist at a
// time.
class Planted {
 public:
  explicit Planted(Fault fault) { detail::planted = static_cast<int>(fault); }
  ~Planted() { detail::planted = detail::kNone; }
  Planted(const Planted&) = delete;
  Planted& operator=(const Planted&) = delete;
};

}  // namespace am::fault
