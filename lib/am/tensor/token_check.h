// Checks that token ids and labels lie in the vocabulary, on every layout: a rank with a slice of
// the vocabulary cannot distinguish an invalid id from an id in another rank's slice.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace am::tensor {

// Throws Error(kUsage) naming the first value of `tokens` (int64) that is neither in [0,
// vocabulary) nor `ignored`. `what` names such a value in the message, for example "label". On a
// GPU the check is asynchronous: a device-side assertion stops the process.
void check_tokens(const at::Tensor& tokens, const char* what, int64_t vocabulary,
                  std::optional<int64_t> ignored = std::nullopt);

}  // namespace am::tensor
