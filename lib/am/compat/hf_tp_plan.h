// The tensor-parallel plan of transformers for a model.
//
//   get_hf_tp_shard_plan(qwen3).rules;   // model.layers.*.self_attn.q_proj = colwise, ..
//
// NeMo AutoModel's function of this name merges the plans of the model's class, of the instance and
// of the inner decoder, adds the embedding (rowwise_rep), and leaves the head's output sharded.
// The function here builds the plan from automesh's own tables, without transformers.
// Differences from AutoModel's function:
//
//   - style names that AutoModel cannot translate (for example rowwise_split_input) are accepted;
//   - modules that a model with this config does not contain (for example a tied head or a dense
//     layer) are omitted.
//
// As in AutoModel, tensor parallelism does not shard experts; expert parallelism does.
//
// A plan file with `tp_plan = "auto"` uses another TP plan: automesh's own styles, and sequence
// parallelism if strategy.sequence_parallel is set.
#pragma once

#include "am/model/config.h"
#include "am/model/tp_plan.h"

namespace am::compat {

// Returns transformers' plan for the model. Throws Error(kPlan) if transformers has no plan for the
// family (for example GPT-2). Also throws Error(kPlan) if transformers' plan shards only the
// embedding (for example gpt-oss) or only routed experts (for example Granite MoE), or does not
// shard latent attention (DeepSeek-V2 and V3).
model::TpPlan get_hf_tp_shard_plan(const model::ModelConfig& config);

}  // namespace am::compat
