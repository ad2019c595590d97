// NeMo AutoModel's distributed utils, by the same names; FirstRankPerNode has a file of its own,
// and get_sync_ctx, which knows the strategies, is in am/parallel/sync_ctx.h. Python's leading
// underscores are dropped. The first argument is what torch.distributed keeps in globals.
//
// Differences from AutoModel, all of them mended faults:
//   - barrier_with_timeout: `group` and `timeout` are both honoured, and the missing ranks are
//     named. Where the Gloo group cannot be made the answer is false (it was an ordinary barrier,
//     without the timeout, and true).
//   - reduce_loss: any device, counts of 64 bits, an empty list is a sum of nothing.
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

// Collective: a Gloo group of all ranks (or of `members`' ranks) with connections of its own.
// Nothing outside a job, or when it cannot be made: then a warning is logged.
std::optional<runtime::Group> create_gloo_group(
    Distributed& dist, std::optional<std::chrono::milliseconds> timeout = {},
    const runtime::Group* members = nullptr);

// Collective among the group's ranks (null: all): whether all came within `timeout`. When not, a
// warning names those that are missing. True at once for one rank. Uses a Gloo group of its own and
// closes it again; each of its three steps (meeting, connecting, the barrier) may take `timeout`,
// so that is how long a rank that dies between them can hold the others.
bool barrier_with_timeout(Distributed& dist, std::chrono::milliseconds timeout,
                          const runtime::Group* group = nullptr);

// Collective: a barrier, then "[TEXT] datetime: YYYY-mm-dd HH:MM:SS " in the log of every rank.
void barrier_and_log(Distributed& dist, const std::string& text);

// The (rank, size) by which an evaluation set is divided: for DDP on several ranks; other
// strategies let every rank evaluate everything.
std::optional<std::pair<int64_t, int64_t>> dp_eval_sample_shard(
    const config::DistributedConfig& strategy, int64_t rank, int64_t size);

// Both not yet divided: the caller divides.
struct ReducedLoss {
  at::Tensor loss;         // [1], float32: the sum of all losses
  at::Tensor denominator;  // [1], int64: tokens, or losses
};

// Collective where dp_group is given: the sum of the losses (each of one element) over the list and
// the group's ranks, and what to divide it by: `total_num_tokens` of all ranks when per_token_loss,
// else the number of losses. On the device of the losses; with none on that of the group.
ReducedLoss reduce_loss(const std::vector<at::Tensor>& loss_store, int64_t total_num_tokens,
                        bool per_token_loss = true, const runtime::Group* dp_group = nullptr);

}  // namespace am::compat
