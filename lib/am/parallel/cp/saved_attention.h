// State that the autograd nodes of context-parallel attention save for backward.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "am/nn/attention/saved_params.h"
#include "am/parallel/cp/sequence_group.h"

namespace am::parallel::cp {

struct SavedAttention {
  at::Tensor q_BHtK, k_BGtK, v_BGtV, lse_BHt;
  at::Tensor sinks_H = {};   // attention sinks; undefined: the model has none
  at::Tensor out_BtHV = {};  // attention's output; undefined: backward does not read it
  nn::AttentionParams params = {};
  const SequenceGroup* ranks = nullptr;

  void save(torch::autograd::AutogradContext& context) const {
    context.save_for_backward(
        {q_BHtK, k_BGtK, v_BGtV, lse_BHt, params.document_BT, sinks_H, out_BtHV});
    nn::save_params(params, context);
    context.saved_data["ranks"] = reinterpret_cast<int64_t>(ranks);
  }

  static SavedAttention of(torch::autograd::AutogradContext& context) {
    const torch::autograd::variable_list saved = context.get_saved_variables();
    return {.q_BHtK = saved[0],
            .k_BGtK = saved[1],
            .v_BGtV = saved[2],
            .lse_BHt = saved[3],
            .sinks_H = saved[5],
            .out_BtHV = saved[6],
            .params = nn::saved_params(context, saved[4]),
            .ranks = reinterpret_cast<const SequenceGroup*>(context.saved_data["ranks"].toInt())};
  }
};

}  // namespace am::parallel::cp
