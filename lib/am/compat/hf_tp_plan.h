// The tensor-parallel plan of transformers for a model.
//
//   get_hf_tp_shard_plan(qwen3).rules;   // model.layers.*.self_attn.q_proj = colwise, ...
//
// NeMo AutoModel's function of this name merges the plans of the model's class, of the instance and
// of the inner decoder, adds the embedding (rowwise_rep), and leaves the head's output sharded.
// This function does the same from automesh's own tables, since transformers is not available.
// Differences:
//
//   - names that AutoModel cannot translate (rowwise_split_input) are regular styles, so that
//     every plan of transformers 5 works;
//   - modules that the config does not have (a tied head, a dense layer) are omitted;
//   - experts stay whole, as in AutoModel: expert parallelism shards them.
//
// `tp_plan = "auto"` is the family's plan, which has sequence parallelism, unlike this one.
#pragma once

#include "am/model/config.h"
#include "am/model/tp_plan.h"

namespace am::compat {

// Throws Error(kPlan) if transformers has no plan (GPT-2, Falcon, gpt-oss), or one that shards
// modules that automesh keeps whole (DeepSeek's latent attention).
model::TpPlan get_hf_tp_shard_plan(const model::ModelConfig& config);

}  // namespace am::compat
