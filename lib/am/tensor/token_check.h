// Checks that token ids and labels lie in the vocabulary, on every layout: a rank with a slice of
// the vocabulary cannot distinguish an invalid id from an id in another rank's slice.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace am::tensor {

// Throws Error(kUsage) for the first value of `tokens` (int64) that is neither in [0, vocabulary)
// nor equal to `ignored`. `what` is the message's noun for the values, for example "label". On a
// GPU, the check is asynchronous: a device-side assertion fails instead, and later CUDA calls of
// the process return its error. Does not check meta tensors.
void check_tokens(const at::Tensor& tokens, const char* what, int64_t vocabulary,
                  std::optional<int64_t> ignored = std::nullopt);

}  // namespace am::tensor
