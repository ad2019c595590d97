#include "am/planner/memory_savings.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "am/base/text.h"
#include "am/config/backend.h"
#include "am/planner/activations.h"
#include "am/planner/memory.h"

namespace am::planner {

namespace {

using config::ActivationCheckpointing;

struct Change {
  std::string key;
  config::Plan plan;
};

void add_checkpointing(const config::Plan& plan, std::vector<Change>& changes) {
  if (checkpointing_of(plan) == ActivationCheckpointing::kFull) return;
  const bool megatron = std::holds_alternative<config::MegatronFSDPConfig>(plan.strategy);
  Change change = {cat("strategy.activation_checkpointing = ", megatron ? "true" : "\"full\""),
                   plan};
  set_checkpointing(ActivationCheckpointing::kFull, change.plan.strategy);
  changes.push_back(std::move(change));
}

void add_offload(const config::Plan& plan, std::vector<Change>& changes) {
  const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy);
  if (fsdp2 == nullptr || fsdp2->offload_policy || config::computes_on_host(fsdp2->backend)) {
    return;
  }
  Change change = {"strategy.offload_policy = {}", plan};
  std::get<config::FSDP2Config>(change.plan.strategy).offload_policy.emplace();
  changes.push_back(std::move(change));
}

void add_micro_batch(const config::Plan& plan, std::vector<Change>& changes) {
  const int64_t size = plan.train.micro_batch_size;
  if (size % 2 != 0) return;
  Change change = {cat("train.micro_batch_size = ", size / 2), plan};
  change.plan.train.micro_batch_size = size / 2;
  changes.push_back(std::move(change));
}

}  // namespace

std::vector<MemorySaving> memory_savings(const Job& job, int64_t rank) {
  std::vector<Change> changes;
  add_checkpointing(job.plan, changes);
  add_offload(job.plan, changes);
  add_micro_batch(job.plan, changes);
  const auto peak = [&](const config::Plan& plan, const Layout& layout) {
    return estimate_memory(plan, job.model, layout, rank).components.total();
  };
  const int64_t now = peak(job.plan, job.layout);
  std::vector<MemorySaving> savings;
  for (const Change& change : changes) {
    const Job changed = make_job(change.plan, job.model, job.layout.mesh.world_size());
    const int64_t saved = now - peak(changed.plan, changed.layout);
    if (saved > 0) savings.push_back({change.key, saved});
  }
  std::sort(savings.begin(), savings.end(),
            [](const MemorySaving& a, const MemorySaving& b) { return a.bytes > b.bytes; });
  return savings;
}

}  // namespace am::planner
