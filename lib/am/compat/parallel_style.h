// The PyTorch equivalent of a tensor-parallel style: class, and layouts of input and output.
//
//   translate_to_torch_parallel_style("colwise_rep");   // ColwiseParallel, Replicate -> Replicate
//
// NeMo AutoModel's function of this name returns PyTorch's object, knows the first six styles and
// throws for Hugging Face's newer names, so that one newer name invalidates a whole plan. This
// function accepts every name that a plan may use (model/tp_plan.h lists them). A style without a
// class (a whole weight whose gradient is summed over tp) is a regular result.
#pragma once

#include <string_view>

#include "am/mesh/shard.h"
#include "am/model/tp_plan.h"

namespace am::compat {

struct TorchParallelStyle {
  model::TpStyle style = model::TpStyle::kColwise;
  // "ColwiseParallel", "RowwiseParallel" or "SequenceParallel"; "" if PyTorch has none.
  std::string_view class_name;
  // Layouts of the activations over tp; Shard(-1) shards the features, Shard(1) the sequence.
  // Without a class: unchanged.
  mesh::Placement input_layout;
  mesh::Placement output_layout;
};

// Throws Error(kUsage) listing the legal names.
TorchParallelStyle translate_to_torch_parallel_style(std::string_view name);

}  // namespace am::compat
