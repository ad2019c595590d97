// Functions that store AttentionParams in a node's autograd context in forward, and return them in
// backward. document_BT is not stored: the caller must pass it to save_for_backward().
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include "am/nn/attention/block_kernel.h"

namespace am::nn {

inline void save_params(const AttentionParams& params, torch::autograd::AutogradContext& context) {
  context.saved_data["scale"] = params.scale;
  context.saved_data["softcap"] = params.softcap;
  context.saved_data["window"] = params.window;
  if (!params.slopes.empty()) context.saved_data["slopes"] = params.slopes;
  if (params.document_starts) context.saved_data["document_starts"] = *params.document_starts;
}

inline AttentionParams saved_params(torch::autograd::AutogradContext& context,
                                    const at::Tensor& document_BT) {
  auto& data = context.saved_data;
  AttentionParams params = {.scale = data["scale"].toDouble(),
                            .softcap = data["softcap"].toOptional<double>(),
                            .window = data["window"].toInt(),
                            .document_BT = document_BT};
  if (data.count("slopes") > 0) params.slopes = data["slopes"].toDoubleVector();
  if (data.count("document_starts") > 0) {
    params.document_starts =
        std::make_shared<const std::vector<int64_t>>(data["document_starts"].toIntVector());
  }
  return params;
}

}  // namespace am::nn
