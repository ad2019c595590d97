// Tensor-parallel plans as data: which module is cut how, per family, and what a plan means for a
// model.
//
// Styles carry Hugging Face's and PyTorch's names. Facts: a column-wise Linear holds Shard(0) of
// weight and bias and gives its output cut on the last dim; a row-wise Linear holds Shard(1), takes
// such an input, and sums its output over tp, its bias replicated; a row-wise Embedding holds a
// slice of the vocabulary.
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
  kPackedColwise,  // packed_colwise: column-wise, each slice of a fused matrix by itself
  kColwiseRep,     // colwise_rep = colwise_gather_output: column-wise, output gathered
  kRowwiseRep,     // rowwise_rep = rowwise_split_input: row-wise, replicated input; an Embedding:
                   // embedding_rowwise
  kSequenceParallel,             // sequence_parallel: a norm on sequence shards, weight replicated
  kReplicatedWithGradAllreduce,  // replicated_with_grad_allreduce: weight replicated, its gradient
                                 // summed over tp
};

// Null for an unknown name; `parallel_style_names` lists the known ones.
std::optional<TpStyle> parse_tp_style(std::string_view name);
const char* to_string(TpStyle style);
const std::vector<std::string>& parallel_style_names();

// Why a style's name is not legal, and what to write instead: the nearest known name, or that
// Hugging Face has the style for models of another kind.
std::string unknown_style_help(std::string_view name);

struct TpRule {
  std::string pattern;  // module name; `*` stands for one component ("model.layers.*.mlp.up_proj")
  TpStyle style;
  Span where = {};  // its own line in a user's file; no file: the plan's place serves
};

struct TpPlan {
  std::string source;  // "family llama", "plan.toml", "tp.toml": for people
  std::vector<TpRule> rules = {};
  // Between row-wise outputs and the next column-wise inputs the hidden states are cut over the
  // sequence.
  bool sequence_parallel = false;
};

// The plan that follows from the family's description, for the modules that this config has. The
// head stays cut over the vocabulary (its loss is vocabulary-parallel).
TpPlan family_tp_plan(const ModelConfig& config, bool sequence_parallel);

// A part of the dim that is cut, which is cut by itself.
struct TpSlice {
  int64_t offset = 0;
  int64_t length = 0;
  int64_t heads = 0;  // that lie in it and are handed out whole; 0: it is cut anywhere
};

// What the plan does to one parameter.
struct TpParameter {
  std::optional<int> shard_dim;   // cut on this dim over tp; absent: replicated
  std::vector<TpSlice> slices;    // of that dim, in order; empty: one, cut anywhere
  bool grad_sum_over_tp = false;  // replicated, but each tp rank sees only a part of its gradient
  std::optional<TpStyle> style;   // of its module, when a rule matched
};

struct ResolvedTpPlan {
  std::vector<TpParameter> parameters;            // parallel to Inventory::parameters
  std::vector<std::vector<std::string>> matches;  // per rule: the modules it matched
};

// Matches rules to modules; the last matching rule wins. A rule that matches nothing is an error
// ("tp.pattern"), so is a style that does not fit its module ("tp.style"), so are modules whose
// styles do not work together ("tp.pair"). `where` is the plan's place.
//
// Whose gradients are summed over tp follows from the modules (gradient_sum.h), whether or not a
// rule says so. A value per head (attention sinks), and the weight of a norm over all heads
// together, are cut as those heads are.
ResolvedTpPlan resolve_tp_plan(const TpPlan& plan, const Inventory& inventory, const Span& where,
                               Diagnostics& found);

}  // namespace am::model
