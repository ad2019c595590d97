#include "am/predict/memory/memory_savings.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "am/base/diagnostic.h"
#include "am/base/text.h"
#include "am/config/backend.h"
#include "am/predict/memory/activations.h"
#include "am/predict/memory/memory.h"

namespace am::predict {

namespace {

using config::ActivationCheckpointing;

struct Change {
  std::string key;
  config::Plan plan;
};

void add_checkpointing(const config::Plan& plan, std::vector<Change>& changes) {
  if (config::checkpointing_of(plan.strategy) == ActivationCheckpointing::kFull) return;
  const bool megatron = std::holds_alternative<config::MegatronFSDPConfig>(plan.strategy);
  Change change = {cat("strategy.activation_checkpointing = ", megatron ? "true" : "\"full\""),
                   plan};
  config::set_checkpointing(ActivationCheckpointing::kFull, change.plan.strategy);
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

std::vector<MemorySaving> memory_savings(const config::Plan& plan, const model::ModelConfig& model,
                                         const layout::Layout& layout, int64_t rank) {
  std::vector<Change> changes;
  add_checkpointing(plan, changes);
  add_offload(plan, changes);
  add_micro_batch(plan, changes);
  const int64_t now = estimate_memory(plan, model, layout, rank).components.total();
  std::vector<MemorySaving> savings;
  for (const Change& change : changes) {
    Diagnostics ignored;  // a change whose layout cannot be built is skipped without a report
    const auto changed = layout::build_layout(change.plan, model, layout.mesh.sizes(), ignored);
    if (!changed.has_value()) continue;
    const int64_t saved =
        now - estimate_memory(change.plan, model, *changed, rank).components.total();
    if (saved > 0) savings.push_back({change.key, saved});
  }
  std::sort(savings.begin(), savings.end(),
            [](const MemorySaving& a, const MemorySaving& b) { return a.bytes > b.bytes; });
  return savings;
}

}  // namespace am::predict
