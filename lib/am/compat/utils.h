// The functions of NeMo AutoModel's distributed utils, under the same names without Python's
// leading underscores. FirstRankPerNode has its own file, and get_sync_ctx, which depends on the
// strategies, is in am/parallel/sync_ctx.h. An argument `dist` replaces torch.distributed's global
// state.
//
// Differences from AutoModel, all bug fixes:
//   - barrier_with_timeout: both `group` and `timeout` are respected, and the missing ranks are
//     named. If the Gloo group cannot be created, the function returns false. (AutoModel's function
//     then waits in an ordinary barrier without a timeout, and returns true.)
//   - reduce_loss: supports any device and 64-bit counts; returns the sum 0 for an empty list.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "am/compat/distributed.h"
#include "am/config/strategy_config.h"

namespace am::compat {

// Creates a Gloo group of the ranks of `members` (null: of all ranks) with separate connections.
// Outside a job, returns nothing. If creation fails, logs a warning and returns nothing.
// Collective.
std::optional<runtime::Group> create_gloo_group(
    Distributed& dist, std::optional<std::chrono::milliseconds> timeout = {},
    const runtime::Group* members = nullptr);

// Waits for the ranks of `group` (null: for all ranks), and returns whether all arrived in time. If
// ranks are missing, logs a warning that names them. Returns true immediately for a group of one
// rank and outside a job. Creates a temporary Gloo group. The function has three steps: rendezvous,
// connecting and barrier. Each step may take `timeout`, so a rank that dies between two steps can
// delay the other ranks by several times `timeout`. Collective over the group.
bool barrier_with_timeout(Distributed& dist, std::chrono::milliseconds timeout,
                          const runtime::Group* group = nullptr);

// Waits in a barrier of all ranks, then writes "[TEXT] datetime: YYYY-mm-dd HH:MM:SS " (local time)
// to the log of this rank. Collective.
void barrier_and_log(Distributed& dist, const std::string& text);

// Returns {rank, size} if DDP divides an evaluation set among the `size` ranks. Returns nothing for
// other strategies, and for one rank: every rank then evaluates all samples.
std::optional<std::pair<int64_t, int64_t>> dp_eval_sample_shard(
    const config::DistributedConfig& strategy, int64_t rank, int64_t size);

// A sum of losses and its denominator; the caller divides.
struct ReducedLoss {
  at::Tensor loss;         // sum of all losses: [1], float32
  at::Tensor denominator;  // number of tokens if per_token_loss, else of losses: [1], int64
};

// Returns the sum of the losses in the list, which have one element each, and the divisor for their
// mean: `total_num_tokens` if per_token_loss, otherwise the number of losses. With `dp_group`, sums
// both numbers over the group's ranks, and is collective. The results are on the losses' device;
// for an empty list, on the group's device or, without a group, on the CPU.
ReducedLoss reduce_loss(const std::vector<at::Tensor>& loss_store, int64_t total_num_tokens,
                        bool per_token_loss = true, const runtime::Group* dp_group = nullptr);

}  // namespace am::compat
