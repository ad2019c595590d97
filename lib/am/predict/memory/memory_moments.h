// Sums the live memory at each moment of a rank's step and remembers the peak.
//
//   MemoryMoments moments(constant_bytes(plan, config, layout, context, step, rank));
//   moments.record("forward of ", unit.name, "", {.activations = 4096.0, .unsharded = 512.0});
//   moments.peak().components.total();
#pragma once

#include <cstdint>
#include <string_view>

#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/model/config.h"
#include "am/predict/memory/activations.h"
#include "am/predict/memory/memory.h"
#include "am/predict/memory/step_units.h"

namespace am::predict {

// Live bytes at one moment, without those that constant_bytes() returns.
struct MemorySnapshot {
  double gradients = 0;  // stored gradients of the parameters that the rank stores
  double activations = 0;
  double logits = 0;
  double unsharded = 0;
  double communication = 0;

  double sum() const { return gradients + activations + logits + unsharded + communication; }
  MemorySnapshot& operator+=(const MemorySnapshot& more);
  bool operator==(const MemorySnapshot&) const = default;
};

// Returns the bytes of a rank that are constant during a step: parameters, optimizer states,
// MemoryComponents::other, and all bytes in host memory.
MemoryComponents constant_bytes(const config::Plan& plan, const model::ModelConfig& config,
                                const layout::Layout& layout, const ActivationContext& context,
                                const StepUnits& step, int64_t rank);

class MemoryMoments {
 public:
  explicit MemoryMoments(const MemoryComponents& constant) : constant_(constant) {}

  // Makes `moment` the peak if its sum is larger than that of the peak so far. The moment's name is
  // `what` + `of` + `how`; the three texts must outlive the object.
  void record(std::string_view what, std::string_view of, std::string_view how,
              const MemorySnapshot& moment) {
    // Most moments are well below the peak so far, or equal to it. For these moments, the early
    // return avoids rounding the components to bytes.
    constexpr double kRounding = 8.0;
    if (moment.sum() < fullest_.sum() - kRounding || moment == fullest_) return;
    record_full(what, of, how, moment);
  }

  // Returns the peak's components and the name of its moment; the other members are 0.
  RankMemory peak() const;

 private:
  void record_full(std::string_view what, std::string_view of, std::string_view how,
                   const MemorySnapshot& moment);

  MemoryComponents constant_;
  MemoryComponents peak_;
  MemorySnapshot fullest_{.activations = -1.0};  // less than every recorded moment
  std::string_view what_, of_, how_;
};

}  // namespace am::predict
