// Context parallelism of a plan: how cp shards sequences, and how many bytes attention sends.
// am-plan predicts with the functions that the runtime uses.
#pragma once

#include <cstdint>
#include <string_view>

#include "am/config/plan.h"
#include "am/mesh/layout.h"
#include "am/mesh/sequence_cut.h"

namespace am::layout {

// Returns the order in which cp divides a sequence: kContiguous under "ulysses", otherwise
// kHeadTail (mesh/sequence_cut.h).
mesh::SequenceOrder sequence_order(const config::Plan& plan);

// Returns how a sequence of train.seq_len tokens is sharded over cp. If `sequence_parallel` and
// cp > 1, the parts of the cp ranks are padded so that tp divides each part evenly.
mesh::SequenceCut sequence_cut(const config::Plan& plan, const mesh::MeshSizes& sizes,
                               bool sequence_parallel);

// Returns the number of ranks that hold a copy of each KV head under Ulysses: the smallest `copies`
// for which copies * key_heads is a multiple of `ranks`. `ranks` is the size of cp, and `key_heads`
// the number of KV heads after tp sharding.
int64_t key_head_copies(int64_t ranks, int64_t key_heads);

// Sizes of one layer's attention on one cp rank, after tp sharding: number of sequences, numbers of
// query heads and KV heads, and elements of a head's keys and values per token.
struct ContextAttention {
  double batch = 1.0;
  double heads = 1.0, key_heads = 1.0;
  double key_width = 0.0, value_width = 0.0;
  int64_t window = 0;          // sliding window in tokens; 0: no window
  double element_bytes = 4.0;  // bytes per element of the inputs and outputs of matmuls
};

// Bytes that a cp rank sends in the forward and in the backward of one layer's attention. Partial
// gradients of keys and values are sent in float32.
struct ContextBytes {
  double forward = 0.0, backward = 0.0;
};
// Returns the bytes that attention sends. `method`: the plan's context.method.
ContextBytes context_bytes(std::string_view method, const mesh::SequenceCut& cut,
                           const ContextAttention& attention);

}  // namespace am::layout
