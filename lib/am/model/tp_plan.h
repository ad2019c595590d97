// Represents tensor-parallel plans as data: the style in which each module is sharded, for each
// model family, and the resulting sharding of the model's parameters.
//
// Styles have the names of Hugging Face and PyTorch. A column-wise Linear stores Shard(0) of weight
// and bias, and its output is sharded on the last dim. A row-wise Linear stores Shard(1) of the
// weight and all of the bias, reads an input that is sharded on the last dim, and sums its output
// over tp. A row-wise Embedding stores a slice of the vocabulary.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/model/config.h"
#include "am/model/inventory.h"

namespace am::model {

enum class TpStyle {
  kColwise,        // "colwise"
  kRowwise,        // "rowwise"
  kPackedColwise,  // "packed_colwise": column-wise, each slice of a fused matrix cut separately
  // "colwise_rep" or "colwise_gather_output": column-wise, and the output is gathered over tp.
  kColwiseRep,
  // "rowwise_rep" or "rowwise_split_input": row-wise with a replicated input. For an Embedding also
  // called "embedding_rowwise".
  kRowwiseRep,
  // "sequence_parallel": a norm with a replicated weight, applied to sequence shards.
  kSequenceParallel,
  // "replicated_with_grad_allreduce": the weight is replicated, and its gradient is summed over tp.
  kReplicatedWithGradAllreduce,
};

// Returns the style with this name, or nothing for an unknown name. parallel_style_names() returns
// all known names.
std::optional<TpStyle> parse_tp_style(std::string_view name);
const char* to_string(TpStyle style);
const std::vector<std::string>& parallel_style_names();

// Returns a hint for an unknown style name: the nearest known name, or that Hugging Face
// transformers has this style but automesh does not support it.
std::string unknown_style_help(std::string_view name);

struct TpRule {
  // Pattern of module names (matches_module), for example "model.layers.*.mlp.up_proj" for the up
  // projections of all layers.
  std::string pattern;
  TpStyle style;
  Span where = {};  // line of the user's file with the rule; empty if it is not from a file
};

struct TpPlan {
  std::string source;  // origin of the plan, for messages: for example "family llama" or "tp.toml"
  std::vector<TpRule> rules = {};
  // Whether hidden states are sharded over the sequence between the output of a row-wise module and
  // the input of the next column-wise module.
  bool sequence_parallel = false;
};

// Returns the tensor-parallel plan that is derived from the family's layers. The output of the head
// stays sharded over the vocabulary, because the loss is vocabulary-parallel.
TpPlan family_tp_plan(const ModelConfig& config, bool sequence_parallel);

// A range of a parameter's sharded dim that is cut over tp separately, for example K of a fused
// QKV.
struct TpSlice {
  int64_t offset = 0;
  int64_t length = 0;
  int64_t heads = 0;  // number of KV heads, which must not be cut; 0: may be cut anywhere
};

// How a tensor-parallel plan shards one parameter.
struct TpParameter {
  std::optional<int> shard_dim;  // dim that is sharded over tp; absent: the parameter is replicated
  std::vector<TpSlice> slices;   // slices of shard_dim; empty: one slice, which may be cut anywhere
  // Whether the gradient must be summed over tp: the parameter is replicated, but each tp rank
  // computes only a part of the gradient.
  bool grad_sum_over_tp = false;
  std::optional<TpStyle> style;  // style of the parameter's module; absent: no rule matches it
};

struct ResolvedTpPlan {
  std::vector<TpParameter> parameters;            // one for each of Inventory::parameters
  std::vector<std::vector<std::string>> matches;  // for each rule: names of the modules it matches
};

// Applies the plan to the parameters of the model. If several rules match a module, the last one
// applies. Adds an error for a rule that matches no module ("tp.pattern"), for a style that cannot
// be applied to its module ("tp.style"), and for modules whose styles do not fit each other
// ("tp.pair"). If a rule is not from a file, its errors cite `where`, the location of the plan.
//
// grad_sum_over_tp is computed by gradient_sum.h, even if no rule has the style
// replicated_with_grad_allreduce. Values per head (attention sinks), and the weight of a norm over
// all heads together, need no rule: they are sharded like the heads.
ResolvedTpPlan resolve_tp_plan(const TpPlan& plan, const Inventory& inventory, const Span& where,
                               Diagnostics& found);

}  // namespace am::model
