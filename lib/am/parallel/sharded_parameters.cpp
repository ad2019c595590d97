#include "am/parallel/sharded_parameters.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/parallel/tp/pieces.h"
#include "am/tensor/redistribute.h"

namespace am::parallel {

ShardedParameters::ShardedParameters(layout::Layout layout, const runtime::DeviceMesh& mesh)
    : layout_(std::move(layout)), mesh_(mesh) {}

void ShardedParameters::add_groups(const std::vector<std::unique_ptr<ParamGroup>>& groups) {
  for (const auto& group : groups) groups_.push_back(group.get());
}

void ShardedParameters::for_each_owned(
    const std::function<void(ParamGroup&, size_t, const LocalParameter&)>& visit) {
  for (ParamGroup* group : groups_) {
    for (size_t i = 0; i < group->owned().size(); ++i) visit(*group, i, group->owned()[i]);
  }
}

std::optional<at::Tensor> ShardedParameters::gather_own(const layout::ParameterLayout& layout,
                                                        PieceOf piece_of) const {
  for (const ParamGroup* group : groups_) {
    for (const LocalParameter& owned : group->owned()) {
      if (owned.name != layout.name || owned.replicas == 0) continue;
      // Copies offloaded values to the device. Then gathers in the reverse order of sharding: first
      // over the shard group, then over ep or tp.
      at::Tensor full = piece_of(*group, owned.piece).to(mesh_.device());
      if (layout.fsdp) {
        const Shape tp_shape = layout.tp_shape(mesh_.layout(), mesh_.rank());
        full = tensor::all_gather_dim(full, layout.fsdp_dim,
                                      tp_shape.at(static_cast<size_t>(layout.fsdp_dim)),
                                      mesh_.group(layout.shard_group));
      }
      if (layout.ep_cut) {
        return tensor::all_gather_dim(full, 0, layout.shape.front(), mesh_.group("ep"));
      }
      return tp::gather_parameter(full, layout, mesh_);
    }
  }
  return std::nullopt;
}

at::Tensor ShardedParameters::gather(const std::string& name, PieceOf piece_of) const {
  const auto layout = std::find_if(layout_.parameters.begin(), layout_.parameters.end(),
                                   [&](const auto& each) { return each.name == name; });
  if (layout == layout_.parameters.end()) {
    throw Error(ErrorKind::kUsage, cat("no parameter named ", name));
  }
  const bool pipeline = layout_.stage_owners.size() > 1;
  const int64_t owner = layout_.stage_owners[static_cast<size_t>(layout->stage)];
  const bool in_stage = !pipeline || owner == mesh_.group("pp").index();
  std::optional<at::Tensor> found;
  if (in_stage) found = gather_own(*layout, piece_of);
  if (!pipeline && !layout->ep_owner) return found.value();
  const auto stored = at::TensorOptions(groups_.front()->storage_dtype());
  at::Tensor full =
      found ? found->contiguous() : at::empty(layout->shape, stored.device(mesh_.device()));
  // If the parameter belongs to one expert, the ep rank that holds this expert first broadcasts the
  // tensor to the other ep ranks of the stage. Then, in a pipeline, each rank of the stage
  // broadcasts the tensor to the other ranks of its group "pp".
  if (layout->ep_owner && in_stage) mesh_.group("ep").broadcast(full, *layout->ep_owner);
  if (pipeline) mesh_.group("pp").broadcast(full, owner);
  return full;
}

at::Tensor ShardedParameters::full_parameter(const std::string& name) const {
  return gather(name,
                [](const ParamGroup& group, size_t piece) { return group.value_of_piece(piece); });
}

at::Tensor ShardedParameters::full_gradient(const std::string& name) const {
  return gather(name, [](const ParamGroup& group, size_t piece) {
    return group.pieces().view(group.flat_grad(), piece);
  });
}

}  // namespace am::parallel
