// Finds the PyTorch equivalent of a tensor-parallel style: a class, and layouts of input and
// output.
//
//   translate_to_torch_parallel_style("colwise_rep");   // ColwiseParallel, Replicate -> Replicate
//
// NeMo AutoModel's function of this name returns an object of PyTorch. AutoModel's function
// supports only six styles and throws for Hugging Face's newer names, so a plan with one newer name
// fails. automesh's function accepts every style name of model/tp_plan.h, including
// replicated_with_grad_allreduce, for which PyTorch has no class.
#pragma once

#include <string_view>

#include "am/mesh/shard.h"
#include "am/model/tp_plan.h"

namespace am::compat {

struct TorchParallelStyle {
  model::TpStyle style = model::TpStyle::kColwise;
  // Name of PyTorch's class: "ColwiseParallel", "RowwiseParallel" or "SequenceParallel". Empty if
  // PyTorch has no class for the style.
  std::string_view class_name;
  // Layouts of the input and output activations over tp: Shard(-1) shards the features, Shard(1)
  // the sequence. They are Replicate if PyTorch has no class for the style.
  mesh::Placement input_layout;
  mesh::Placement output_layout;
};

// Returns the equivalent of the style with this name. For an unknown name, throws Error(kUsage)
// with the legal names.
TorchParallelStyle translate_to_torch_parallel_style(std::string_view name);

}  // namespace am::compat
