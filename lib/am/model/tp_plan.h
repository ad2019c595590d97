// Tensor-parallel plans as data: which modules are cut in which style, per family, and the
// resulting shards of a model's parameters.
//
// Styles have Hugging Face's and PyTorch's names. A column-wise Linear holds Shard(0) of weight and
// bias, and its output is sharded on the last dim. A row-wise Linear holds Shard(1) of the weight
// and the whole bias, reads such an input, and sums its output over tp. A row-wise Embedding holds
// a slice of the vocabulary.
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
  kColwise,        // colwise
  kRowwise,        // rowwise
  kPackedColwise,  // packed_colwise: column-wise, each slice of a fused matrix separately
  kColwiseRep,     // colwise_rep = colwise_gather_output: column-wise, output gathered
  // rowwise_rep = rowwise_split_input: row-wise, replicated input. For an Embedding:
  // embedding_rowwise.
  kRowwiseRep,
  kSequenceParallel,             // sequence_parallel: a norm on sequence shards, weight replicated
  kReplicatedWithGradAllreduce,  // replicated_with_grad_allreduce: weight replicated, its gradient
                                 // summed over tp
};

// Returns null for an unknown name; `parallel_style_names` lists the known ones.
std::optional<TpStyle> parse_tp_style(std::string_view name);
const char* to_string(TpStyle style);
const std::vector<std::string>& parallel_style_names();

// Returns a hint for an unknown style name: the nearest known name, or that the style exists in
// Hugging Face for other kinds of models.
std::string unknown_style_help(std::string_view name);

struct TpRule {
  std::string pattern;  // module name; `*` matches one component ("model.layers.*.mlp.up_proj")
  TpStyle style;
  Span where = {};  // line in the user's file; without a file, the plan's location is used
};

struct TpPlan {
  std::string source;  // for messages: "family llama", "plan.toml", "tp.toml"
  std::vector<TpRule> rules = {};
  // Hidden states are sharded over the sequence between a row-wise output and the next column-wise
  // input.
  bool sequence_parallel = false;
};

// Returns the plan derived from the family's description, for the modules that this config has. The
// head's output stays sharded over the vocabulary (the loss is vocabulary-parallel).
TpPlan family_tp_plan(const ModelConfig& config, bool sequence_parallel);

// A part of the sharded dim that is cut separately.
struct TpSlice {
  int64_t offset = 0;
  int64_t length = 0;
  int64_t heads = 0;  // heads that are distributed whole; 0: may be cut anywhere
};

// Effect of the plan on one parameter.
struct TpParameter {
  std::optional<int> shard_dim;  // dim that is sharded over tp; absent: replicated
  std::vector<TpSlice> slices;   // slices of that dim, in order; empty: one slice, cut anywhere
  // Replicated over tp, with a partial gradient on each tp rank.
  bool grad_sum_over_tp = false;
  std::optional<TpStyle> style;  // style of its module, if a rule matched
};

struct ResolvedTpPlan {
  std::vector<TpParameter> parameters;            // parallel to Inventory::parameters
  std::vector<std::vector<std::string>> matches;  // per rule: names of the matched modules
};

// Matches rules to modules; the last matching rule wins. Adds an error for a rule that matches
// nothing ("tp.pattern"), a style that does not fit its module ("tp.style"), and modules whose
// styles are incompatible ("tp.pair"). `where` is the plan's location.
//
// grad_sum_over_tp follows from the modules (gradient_sum.h), also where no rule has the style
// replicated_with_grad_allreduce. Values per head (attention sinks), and the weight of a norm over
// all heads together, are cut with the heads.
ResolvedTpPlan resolve_tp_plan(const TpPlan& plan, const Inventory& inventory, const Span& where,
                               Diagnostics& found);

}  // namespace am::model
