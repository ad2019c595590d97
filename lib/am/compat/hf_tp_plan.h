// The tensor-parallel plan that transformers has for a model.
//
//   get_hf_tp_shard_plan(qwen3).rules;   // model.layers.*.self_attn.q_proj = colwise, ...
//
// NeMo AutoModel's function of this name joins the plans of the model's class, of the instance and
// of the decoder inside, adds the embedding (rowwise_rep), and leaves the head's output cut. So
// does this one, from automesh's own tables: transformers is not there to be asked. Where it
// differs:
//
//   - names that AutoModel cannot translate (rowwise_split_input) are styles like others, so that
//     every plan of transformers 5 works;
//   - modules that this config has not (a tied head, a dense layer) are left out;
//   - experts stay whole, as in AutoModel: expert parallelism cuts them.
//
// `tp_plan = "auto"` is the family's plan, which has sequence parallelism where this one has none.
#pragma once

#include "am/model/config.h"
#include "am/model/tp_plan.h"

namespace am::compat {

// Throws Error(kPlan) where transformers has no plan (GPT-2, Falcon, gpt-oss), or one that cuts
// what automesh keeps whole (DeepSeek's latent attention).
model::TpPlan get_hf_tp_shard_plan(const model::ModelConfig& config);

}  // namespace am::compat
