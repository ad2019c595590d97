// Represents tensor-parallel plans as data. A plan assigns a style to modules of a model;
// resolve_tp_plan() returns the resulting sharding of the model's parameters.
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

// Returns a hint for an unknown style name: a list of the known names, preceded by the nearest
// known name if one is near. If Hugging Face transformers has a style of this name, the hint states
// that automesh does not support it.
std::string unknown_style_help(std::string_view name);

struct TpRule {
  // Pattern of module names (matches_module), for example "model.layers.*.mlp.up_proj" for the up
  // projections of all layers.
  std::string pattern;
  TpStyle style;
  Span where = {};  // line of the rule in the user's file; empty if the rule is not from a file
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

// A range of a parameter's sharded dim that is cut over tp separately, for example the keys of a
// fused QKV matrix.
struct TpSlice {
  int64_t offset = 0;
  int64_t length = 0;
  // Number of KV heads in the slice; 0: the slice does not contain KV heads. A KV head is never
  // cut: if there are more tp ranks than KV heads, several ranks store the same head.
  int64_t heads = 0;
};

// How a tensor-parallel plan shards one parameter.
struct TpParameter {
  std::optional<int> shard_dim;  // dim that is sharded over tp; absent: the parameter is replicated
  // Slices of shard_dim that are cut separately; empty: shard_dim is one slice without KV heads.
  std::vector<TpSlice> slices;
  // Whether the gradient must be summed over tp: the parameter is replicated, but each tp rank
  // computes only a part of the gradient.
  bool grad_sum_over_tp = false;
  std::optional<TpStyle> style;  // style of the parameter's module; absent: no rule matches it
};

struct ResolvedTpPlan {
  std::vector<TpParameter> parameters;            // one for each of Inventory::parameters
  std::vector<std::vector<std::string>> matches;  // for each rule: names of the modules it matches
};

// Applies the plan to the parameters of the model. If several rules match a module, the last of
// these rules applies. Adds an error for a rule that matches no module ("tp.pattern"), for a style
// that cannot be applied to its module ("tp.style"), and for modules whose styles do not fit each
// other ("tp.pair"). Errors of a rule that is not from a file cite `where`, the location of the
// plan.
//
// The function gradient_sum() determines grad_sum_over_tp, even if no rule has the style
// replicated_with_grad_allreduce. Values per head (attention sinks), and the weight of a norm over
// all heads together, need no rule: they are sharded like the heads.
ResolvedTpPlan resolve_tp_plan(const TpPlan& plan, const Inventory& inventory, const Span& where,
                               Diagnostics& found);

}  // namespace am::model
