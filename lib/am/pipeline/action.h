// Actions of a pipeline schedule, in the notation of PyTorch's schedules and CSV files.
//
//   2F0        forward of stage 2 on micro-batch 0
//   2B0        its whole backward; 2I0 the part for the input, 2W0 the part for the weights
//   2SEND_F0   2RECV_F0   2SEND_B0   2RECV_B0   activations down, gradients up the pipeline
//   2UNSHARD   2RESHARD   2REDUCE_GRAD          the stage's parameters, of all micro-batches
//   (2F1;5B0)OVERLAP_F_B                        a forward and a backward that overlap
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace am::pipeline {

enum class Kind : uint8_t {
  kForward,
  kBackwardInput,
  kBackwardWeight,
  kBackward,
  kUnshard,
  kReshard,
  kSendForward,
  kRecvForward,
  kSendBackward,
  kRecvBackward,
  kReduceGrad,
};

// "F", "I", "W", "B", "UNSHARD", ...
const char* to_string(Kind kind);

constexpr bool is_compute(Kind kind) { return kind <= Kind::kBackward; }
// Whether the action (B or I) computes the gradient of the stage's input, for which the previous
// stage waits.
constexpr bool makes_input_gradient(Kind kind) {
  return kind == Kind::kBackward || kind == Kind::kBackwardInput;
}
// Whether the action (B or W) computes the weights' gradient, after which the forward's saved
// activations are no longer needed.
constexpr bool ends_micro_batch(Kind kind) {
  return kind == Kind::kBackward || kind == Kind::kBackwardWeight;
}
// False for UNSHARD, RESHARD and REDUCE_GRAD, which apply to a stage rather than one micro-batch.
constexpr bool has_micro_batch(Kind kind) {
  return kind != Kind::kUnshard && kind != Kind::kReshard && kind != Kind::kReduceGrad;
}

struct Action {
  Kind kind = Kind::kForward;
  int32_t stage = 0;
  int32_t micro_batch = -1;  // -1: none

  bool operator==(const Action&) const = default;
};

// "2F0"
std::string to_string(const Action& action);

// One position in a rank's list: a bubble, an action, or an overlapped pair of forward and
// backward.
class Slot {
 public:
  Slot() = default;  // a bubble
  Slot(const Action& action) : actions_{action, {}}, count_(1) {}
  Slot(const Action& forward, const Action& backward) : actions_{forward, backward}, count_(2) {}

  bool is_bubble() const { return count_ == 0; }
  bool is_pair() const { return count_ == 2; }
  // Zero, one, or two actions (forward, then backward).
  std::span<const Action> actions() const { return {actions_.data(), count_}; }

  bool operator==(const Slot&) const = default;

 private:
  std::array<Action, 2> actions_;
  uint8_t count_ = 0;
};

// "2F0", "(2F1;5B0)OVERLAP_F_B", or an empty string for a bubble.
std::string to_string(const Slot& slot);

// Inverse of to_string; ignores surrounding blanks. Returns nothing if the text is not an action;
// `why`, if not null, is then set to the reason as a phrase: "a backward (B) needs a micro-batch".
std::optional<Slot> parse_slot(std::string_view text, std::string* why = nullptr);

}  // namespace am::pipeline
