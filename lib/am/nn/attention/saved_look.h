// A Look in what an autograd node keeps until backward; its documents are a saved variable.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include "am/nn/attention/block_kernel.h"

namespace am::nn {

inline void save_look(const Look& look, torch::autograd::AutogradContext& context) {
  context.saved_data["scale"] = look.scale;
  context.saved_data["softcap"] = look.softcap;
  context.saved_data["window"] = look.window;
}

inline Look saved_look(torch::autograd::AutogradContext& context, const at::Tensor& document_BT) {
  return {context.saved_data["scale"].toDouble(),
          context.saved_data["softcap"].toOptional<double>(), context.saved_data["window"].toInt(),
          document_BT};
}

}  // namespace am::nn
