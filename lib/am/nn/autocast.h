// PyTorch's autocast from C++: while an AutocastScope exists, operators cast their inputs.
//
// As under torch.autocast, matrix products and attention run in the autocast dtype. The inputs of
// operators that would lose too much precision (norms, softmax) are not cast to this dtype. Cast
// weights are not cached: a forward pass uses most weights once, and a cached copy would outlive
// the parameter that FSDP frees.
//
//   const AutocastScope scope({at::kCPU, at::kBFloat16});
//   at::linear(x, w);  // runs in bfloat16, even if x and w are float32
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>

namespace am::nn {

struct Autocast {
  // Device type whose autocast is set. The meta device has no autocast of its own and uses the
  // host's autocast (tensor/meta_operators.h).
  c10::DeviceType device = c10::DeviceType::CPU;
  std::optional<at::ScalarType> dtype;  // absent: autocast is off
};

// Returns the autocast state of this thread for a device type.
Autocast current_autocast(c10::DeviceType device);

// Sets autocast on this thread, and restores the previous state on destruction.
class AutocastScope {
 public:
  explicit AutocastScope(const Autocast& autocast);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  c10::DeviceType device_;
  bool enabled_before_;
  bool cached_before_;
  at::ScalarType dtype_before_;
};

}  // namespace am::nn
