// What a tensor-parallel style is in PyTorch: its class and the layouts of its input and output.
//
//   translate_to_torch_parallel_style("colwise_rep");   // ColwiseParallel, Replicate -> Replicate
//
// NeMo AutoModel's function of this name returns PyTorch's object, knows the first six styles and
// throws at Hugging Face's newer names, so that one such name makes a whole plan useless. Here
// every name that a plan may use is known (model/tp_plan.h has the list), and a style that has no
// class, a weight that stays whole and whose gradient is summed over tp, is a value and no hole.
#pragma once

#include <string_view>

#include "am/mesh/shard.h"
#include "am/model/tp_plan.h"

namespace am::compat {

struct TorchParallelStyle {
  model::TpStyle style = model::TpStyle::kColwise;
  // "ColwiseParallel", "RowwiseParallel" or "SequenceParallel"; "" where PyTorch has none.
  std::string_view class_name;
  // Of the activations, over tp; Shard(-1) cuts the features, Shard(1) the sequence. Without a
  // class: whatever comes goes.
  mesh::Placement input_layout;
  mesh::Placement output_layout;
};

// Throws Error(kUsage) that lists the legal names.
TorchParallelStyle translate_to_torch_parallel_style(std::string_view name);

}  // namespace am::compat
