// Actions of a pipeline schedule, in the notation of PyTorch's schedules and CSV files.
//
//   2F0        forward of stage 2 on micro-batch 0
//   2B0        backward of stage 2 on micro-batch 0: 2I0 and 2W0 in one action
//   2I0        only the gradient of the stage's input
//   2W0        only the gradients of the stage's weights
//   2SEND_F0   2RECV_F0   2SEND_B0   2RECV_B0   activations down, gradients up the pipeline
//   2UNSHARD   2RESHARD   2REDUCE_GRAD          gather or free stage 2; reduce its gradients
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

// Returns the kind in the notation of schedules: "F", "I", "W", "B", "UNSHARD", and so on.
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
// Whether the action concerns one micro-batch. False for UNSHARD, RESHARD and REDUCE_GRAD, which
// concern a whole stage.
constexpr bool has_micro_batch(Kind kind) {
  return kind != Kind::kUnshard && kind != Kind::kReshard && kind != Kind::kReduceGrad;
}

struct Action {
  Kind kind = Kind::kForward;
  int32_t stage = 0;
  int32_t micro_batch = -1;  // -1 for actions without a micro-batch, such as UNSHARD

  bool operator==(const Action&) const = default;
};

// Returns the action's text, for example "2F0".
std::string to_string(const Action& action);

// One position in a rank's list: an action, an overlapped pair of a forward and a backward, or a
// bubble (an empty position, at which the rank waits).
class Slot {
 public:
  // Makes a bubble.
  Slot() = default;
  Slot(const Action& action) : actions_{action, {}}, count_(1) {}
  Slot(const Action& forward, const Action& backward) : actions_{forward, backward}, count_(2) {}

  bool is_bubble() const { return count_ == 0; }
  bool is_pair() const { return count_ == 2; }
  // Returns the actions: none for a bubble; a forward and then a backward for an overlapped pair.
  std::span<const Action> actions() const { return {actions_.data(), count_}; }

  bool operator==(const Slot&) const = default;

 private:
  std::array<Action, 2> actions_;
  uint8_t count_ = 0;
};

// Returns the slot's text, for example "2F0" or "(2F1;5B0)OVERLAP_F_B"; empty for a bubble.
std::string to_string(const Slot& slot);

// Parses the text that to_string() returns for a slot; ignores surrounding blanks. Returns nothing
// for any other text, and then sets `why`, if not null, to the reason, for example "B needs a
// micro-batch, for example 2B0".
std::optional<Slot> parse_slot(std::string_view text, std::string* why = nullptr);

}  // namespace am::pipeline
