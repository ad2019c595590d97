#include "am/compat/utils.h"

#include <ATen/ATen.h>

#include <numeric>

#include "am/base/date.h"
#include "am/base/error.h"
#include "am/base/text.h"

namespace am::compat {

namespace {

std::vector<int64_t> members_of(const Distributed& dist, const runtime::Group* group) {
  return group_or_world(dist, group).ranks();
}

}  // namespace

std::optional<runtime::Group> create_gloo_group(Distributed& dist,
                                                std::optional<std::chrono::milliseconds> timeout,
                                                const runtime::Group* members) {
  if (!dist.is_initialized()) return std::nullopt;
  const runtime::World& world = dist.world();
  const std::vector<int64_t> ranks = members_of(dist, members);
  const std::string name =
      world.unique_name(cat("gloo/", members != nullptr ? members->communicator_name() : "world"));
  try {
    runtime::Group group =
        world.new_group(name, ranks, {timeout.value_or(world.timeout())}, "gloo");
    dist.log(LogLevel::kDebug, cat("created Gloo group ", name));
    return group;
  } catch (const Error& error) {
    dist.log(LogLevel::kWarning, cat("Failed to create Gloo group: ", error.what()));
    return std::nullopt;
  }
}

bool barrier_with_timeout(Distributed& dist, std::chrono::milliseconds timeout,
                          const runtime::Group* group) {
  if (!dist.is_initialized() || group_or_world(dist, group).size() == 1) return true;
  const auto gloo = create_gloo_group(dist, timeout, group);
  if (!gloo) return false;  // create_gloo_group has logged the reason and the missing ranks
  try {
    gloo->monitored_barrier(timeout);
    return true;
  } catch (const Error& error) {
    // Records that this rank has left the barrier, because the rank continues after the error.
    dist.world().progress().wait_ends();
    dist.log(LogLevel::kWarning, cat("Monitored barrier failed: ", error.what()));
    return false;
  }
}

void barrier_and_log(Distributed& dist, const std::string& text) {
  if (dist.is_initialized()) dist.world().group().barrier();
  dist.log(LogLevel::kInfo, cat("[", text, "] datetime: ", local_date(), " "));
}

std::optional<std::pair<int64_t, int64_t>> dp_eval_sample_shard(
    const config::DistributedConfig& strategy, int64_t rank, int64_t size) {
  if (!std::holds_alternative<config::DDPConfig>(strategy) || size <= 1) return std::nullopt;
  return std::pair(rank, size);
}

ReducedLoss reduce_loss(const std::vector<at::Tensor>& loss_store, int64_t total_num_tokens,
                        bool per_token_loss, const runtime::Group* dp_group) {
  const auto device = !loss_store.empty()   ? loss_store.front().device()
                      : dp_group != nullptr ? dp_group->device()
                                            : c10::Device(c10::kCPU);
  const auto on_device = at::TensorOptions(device);
  ReducedLoss reduced;
  reduced.loss = at::zeros({1}, on_device.dtype(at::kFloat));
  for (const at::Tensor& loss : loss_store) reduced.loss += loss.detach().to(at::kFloat).view(1);
  const int64_t count = per_token_loss ? total_num_tokens : static_cast<int64_t>(loss_store.size());
  reduced.denominator = at::full({1}, count, on_device.dtype(at::kLong));
  if (dp_group != nullptr) {
    dp_group->all_reduce(reduced.loss);
    dp_group->all_reduce(reduced.denominator);
  }
  return reduced;
}

}  // namespace am::compat
