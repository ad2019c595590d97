// A Look in what an autograd node keeps until backward; its documents are a saved variable.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include "am/nn/attention/block_kernel.h"

namespace am::nn {

inline void save_look(const Look& look, torch::autograd::AutogradContext& context) {
  context.saved_data["scale"] = look.scale;
  context.saved_data["softcap"] = look.softcap;
  context.saved_data["window"] = look.window;
  if (look.document_starts) context.saved_data["document_starts"] = *look.document_starts;
}

inline Look saved_look(torch::autograd::AutogradContext& context, const at::Tensor& document_BT) {
  auto& data = context.saved_data;
  Look look = {data["scale"].toDouble(), data["softcap"].toOptional<double>(),
               data["window"].toInt(), document_BT};
  if (data.count("document_starts") > 0) {
    look.document_starts =
        std::make_shared<const std::vector<int64_t>>(data["document_starts"].toIntVector());
  }
  return look;
}

}  // namespace am::nn
