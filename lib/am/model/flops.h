// Floating-point operations that a model's training step needs, by the convention that MFU figures
// use.
//
//   mfu = train_flops_per_token(config, seq_len) * tokens_per_second / (ranks * peak_flops)
#pragma once

#include <cstdint>

#include "am/model/config.h"
#include "am/model/inventory.h"

namespace am::model {

// Parameters that one token passes through. Equal to the total for these dense families.
int64_t active_parameters(const Inventory& inventory);

// Forward and backward of one token: 6 (N - E) + 12 L n d s, with N the parameters, E those of the
// embedding table (a look-up, no multiplication; a tied table still counts once, as the head's
// matrix), L layers, n query heads of d, and s the sequence length. A multiplication with an
// addition is 2 operations. Attention is counted as if it were not causal, and recomputed
// operations are not counted. This is PaLM's formula (Chowdhery et al., 2022, appendix B) without
// the embedding, as torchtitan's.
double train_flops_per_token(const ModelConfig& config, int64_t seq_len);

}  // namespace am::model
