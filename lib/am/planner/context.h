// Context parallelism of a plan: how sequences are cut, and what attention's messages carry.
// am-plan predicts with what the runtime does.
#pragma once

#include <cstdint>
#include <string_view>

#include "am/config/plan.h"
#include "am/mesh/layout.h"
#include "am/mesh/sequence_cut.h"

namespace am::planner {

mesh::SequenceOrder sequence_order(const config::Plan& plan);

// Of sequences of train.seq_len, of which sequence parallelism cuts each rank's part over tp, or
// does not.
mesh::SequenceCut sequence_cut(const config::Plan& plan, const mesh::MeshSizes& sizes,
                               bool sequence_parallel);

// Under ulysses: on how many ranks each of a rank's key heads is, so that all divide them.
int64_t key_head_copies(int64_t ranks, int64_t key_heads);

// Attention of one layer on a rank of context parallelism: heads, of which tp cut some away, and
// their widths.
struct ContextAttention {
  double batch = 1.0;
  double heads = 1.0, key_heads = 1.0;
  double key_width = 0.0, value_width = 0.0;
  int64_t window = 0;          // 0: none
  double element_bytes = 4.0;  // of what products take and give
};

// What a rank sends for it in one pass; sums of gradients travel in float32.
struct ContextBytes {
  double forward = 0.0, backward = 0.0;
};
// By context.method.
ContextBytes context_bytes(std::string_view method, const mesh::SequenceCut& cut,
                           const ContextAttention& attention);

}  // namespace am::planner
