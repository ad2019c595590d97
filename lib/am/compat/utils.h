// NeMo AutoModel's distributed utils, under the same names. FirstRankPerNode has its own file, and
// get_sync_ctx, which depends on the strategies, is in am/parallel/sync_ctx.h. Python's leading
// underscores are dropped. The first argument replaces torch.distributed's globals.
//
// Differences from AutoModel, all bug fixes:
//   - barrier_with_timeout: both `group` and `timeout` are respected, and the missing ranks are
//     named. If the Gloo group cannot be created it returns false (it was an ordinary barrier,
//     without the timeout, and true).
//   - reduce_loss: any device, counts of 64 bits; an empty list has the sum 0.
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

// Collective: creates a Gloo group of all ranks (or of `members`' ranks) with separate connections.
// Returns nothing outside a job; if creation fails, logs a warning and returns nothing.
std::optional<runtime::Group> create_gloo_group(
    Distributed& dist, std::optional<std::chrono::milliseconds> timeout = {},
    const runtime::Group* members = nullptr);

// Collective over the group's ranks (null: all): returns whether all arrived within `timeout`; if
// not, a warning names the missing ranks. Returns true immediately for one rank. Creates a
// temporary Gloo group; each of the three steps (rendezvous, connecting, barrier) may take
// `timeout`, so a rank that dies between them can delay other ranks by that much.
bool barrier_with_timeout(Distributed& dist, std::chrono::milliseconds timeout,
                          const runtime::Group* group = nullptr);

// Collective: a barrier, then "[TEXT] datetime: YYYY-mm-dd HH:MM:SS " in the log of every rank.
void barrier_and_log(Distributed& dist, const std::string& text);

// Returns the (rank, size) by which an evaluation set is divided, for DDP on several ranks; with
// other strategies every rank evaluates everything.
std::optional<std::pair<int64_t, int64_t>> dp_eval_sample_shard(
    const config::DistributedConfig& strategy, int64_t rank, int64_t size);

// A sum of losses and its denominator; the caller divides.
struct ReducedLoss {
  at::Tensor loss;         // [1], float32: the sum of all losses
  at::Tensor denominator;  // [1], int64: number of tokens if per_token_loss, else of losses
};

// Collective if dp_group is given: returns the sum of the losses (one element each) over the list
// and the group's ranks, and the divisor: `total_num_tokens` of all ranks if per_token_loss,
// otherwise the number of losses. The result is on the losses' device; for an empty list, on the
// group's.
ReducedLoss reduce_loss(const std::vector<at::Tensor>& loss_store, int64_t total_num_tokens,
                        bool per_token_loss = true, const runtime::Group* dp_group = nullptr);

}  // namespace am::compat
