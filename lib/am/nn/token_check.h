// Token ids and labels that no row of the vocabulary stands for are a caller's mistake, on every
// layout alike: a rank that holds a slice of the vocabulary cannot tell them from another's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace am::nn {

// `what`: "label", "token id". Throws Error(kUsage) that names the first value of `tokens` (int64)
// that is neither in [0, vocabulary) nor `ignored`. On a GPU nothing waits: the device stops the
// process when it gets there, as its own kernels do.
void check_tokens(const at::Tensor& tokens, const char* what, int64_t vocabulary,
                  std::optional<int64_t> ignored = std::nullopt);

}  // namespace am::nn
