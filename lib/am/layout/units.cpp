#include "am/layout/units.h"

#include <algorithm>
#include <variant>

#include "am/config/backend.h"

namespace am::layout {

namespace {

std::vector<bool> fsdp2_reshards(const config::FSDP2Config& config,
                                 const std::vector<model::Unit>& units, int64_t pp) {
  int last_layer = -1;
  for (const auto& unit : units) last_layer = std::max(last_layer, unit.layer);
  std::vector<bool> reshard;
  for (const auto& unit : units) {
    const bool root = unit.kind == model::UnitKind::kRoot;
    const bool head = unit.kind == model::UnitKind::kHead;
    bool wanted = pp == 1 && !root && !head && (unit.layer < 0 || unit.layer != last_layer);
    if (config.reshard_after_forward && !root) {
      const auto* flag = std::get_if<bool>(&*config.reshard_after_forward);
      wanted = flag == nullptr || *flag;
    }
    reshard.push_back(wanted);
  }
  return reshard;
}

}  // namespace

std::vector<GatheredPart> gathered_parts(const Layout& layout, const std::vector<int>& indices,
                                         int64_t rank) {
  const Layout::ByRanks own = layout.by_ranks(indices, rank);
  std::vector<GatheredPart> parts;
  for (const bool quantized : {false, true}) {
    parts.push_back({layout.stored_as(own.dense, quantized), /*experts=*/false, quantized});
    parts.push_back({layout.stored_as(own.experts, quantized), /*experts=*/true, quantized});
  }
  parts.erase(std::remove_if(parts.begin() + 1, parts.end(),
                             [](const GatheredPart& part) { return part.parameters.empty(); }),
              parts.end());
  return parts;
}

std::vector<bool> reshard_after_forward(const config::DistributedConfig& strategy,
                                        const std::vector<model::Unit>& units, int64_t pp) {
  if (const auto* fsdp2 = std::get_if<config::FSDP2Config>(&strategy)) {
    return fsdp2_reshards(*fsdp2, units, pp);
  }
  const auto* megatron = std::get_if<config::MegatronFSDPConfig>(&strategy);
  return std::vector<bool>(units.size(), megatron != nullptr && megatron->zero_dp_strategy == 3);
}

int64_t post_forward_size(const config::DistributedConfig& strategy, const mesh::MeshSizes& sizes) {
  const auto* fsdp2 = std::get_if<config::FSDP2Config>(&strategy);
  if (fsdp2 == nullptr || !fsdp2->reshard_after_forward) return 0;
  const auto* size = std::get_if<int64_t>(&*fsdp2->reshard_after_forward);
  return size != nullptr && *size < sizes.dp_shard * sizes.cp ? *size : 0;
}

int64_t post_forward_size(int64_t size, int64_t ranks) {
  return size > 0 && size < ranks && ranks % size == 0 ? size : 0;
}

bool offloads_to_host(const config::DistributedConfig& strategy) {
  const auto* fsdp2 = std::get_if<config::FSDP2Config>(&strategy);
  return fsdp2 != nullptr && fsdp2->offload_policy && !config::computes_on_host(fsdp2->backend);
}

bool reuses_buffers(const config::DistributedConfig& strategy) {
  const auto* megatron = std::get_if<config::MegatronFSDPConfig>(&strategy);
  return megatron != nullptr && megatron->fsdp_double_buffer && megatron->zero_dp_strategy == 3;
}

bool overlaps_reduction(const config::DistributedConfig& strategy) {
  if (const auto* own = std::get_if<config::MegatronConfig>(&strategy)) {
    return own->overlap_grad_reduce;
  }
  const auto* megatron = std::get_if<config::MegatronFSDPConfig>(&strategy);
  return megatron == nullptr || megatron->overlap_grad_reduce || megatron->zero_dp_strategy >= 2;
}

PrefetchDepths prefetch_depths(const config::DistributedConfig& strategy) {
  if (const auto* fsdp2 = std::get_if<config::FSDP2Config>(&strategy)) {
    if (fsdp2->enable_fsdp2_prefetch) {
      return {fsdp2->fsdp2_forward_prefetch_depth, fsdp2->fsdp2_backward_prefetch_depth};
    }
    return config::computes_on_host(fsdp2->backend) ? PrefetchDepths{} : PrefetchDepths{1, 1};
  }
  if (const auto* own = std::get_if<config::MegatronConfig>(&strategy)) {
    return {own->zero > 0 && own->overlap_param_gather ? 1 : 0, 0};
  }
  const auto* megatron = std::get_if<config::MegatronFSDPConfig>(&strategy);
  // Under ddp and at level 0 of megatron_fsdp, no parameter is sharded over data-parallel ranks, so
  // no unit is gathered.
  if (megatron == nullptr || megatron->zero_dp_strategy == 0) return {};
  if (megatron->zero_dp_strategy == 3) return {1, 1};
  return {megatron->overlap_param_gather ? 1 : 0, 0};
}

}  // namespace am::layout
