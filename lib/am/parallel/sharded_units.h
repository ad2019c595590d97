// Data parallelism by FSDP units, which are gathered and freed one by one. FSDP2, HSDP, the
// strategy megatron, and Megatron-FSDP without disable_bucketing use ShardedUnits. A unit's full
// parameters exist only while they are needed, except at ZeRO level 0 of megatron and
// Megatron-FSDP, where ranks store full parameters. ShardedUnits also manages the parameters that
// FSDP ignores, which stay unsharded.
//
// A unit is gathered before its forward. After forward, the unit is freed or kept until backward. A
// freed unit is gathered again if its backward reads parameters. After backward, the unit's
// gradients are reduced. While a unit computes, the next units are prefetched. A unit has one
// parameter group, plus a second group for its experts under expert parallelism. Quantized
// parameters have groups of their own.
#pragma once

#include <list>
#include <span>
#include <string_view>
#include <vector>

#include "am/parallel/data_parallel.h"

namespace am::parallel {

class ShardedUnits final : public DataParallel {
 public:
  ShardedUnits(const ModelUnits& model, const layout::Layout& layout,
               const runtime::DeviceMesh& mesh, DataParallelOptions options);

  void before_unit(size_t use, std::span<at::Tensor> inputs) override;
  void after_unit(size_t use, std::span<at::Tensor> outputs) override;

 private:
  void finish(ParamGroup& group) override;
  void forget_pass() override;
  // Returns a part of the mesh's group named `group`: the N ranks, including this rank, over which
  // parameters are sharded between forward and backward (reshard_after_forward = N). Returns null
  // if parameters stay sharded over the whole group, because N is not set, or because N is not
  // less than the group's size or does not divide the size.
  const runtime::Group* post_forward(const runtime::DeviceMesh& mesh, std::string_view group);
  void add_ignored(const ModelUnits& model, const layout::Layout& layout,
                   const runtime::DeviceMesh& mesh, Ranks ranks, ParamGroupOptions options);
  const std::vector<ParamGroup*>& groups_of(size_t use) const { return units_[unit_of(use)]; }
  size_t unit_of(size_t use) const { return static_cast<size_t>(uses_[use].unit); }
  void pre_backward(size_t use);
  void post_backward(size_t use);
  void prefetch(size_t use, int step, int64_t depth);
  void unshard(size_t use);
  void reshard_and_reduce(std::span<ParamGroup* const> groups);

  std::vector<nn::UnitUse> uses_;  // uses of the units, in the order of the forward pass
  BufferPool pool_;
  std::list<runtime::Group> post_forward_groups_;
  std::vector<std::vector<ParamGroup*>> units_;
  std::vector<ParamGroup*> ignored_;  // groups of the parameters that FSDP ignores
  // For each unit: whether finish() reduces the unit's gradients, because no input of the unit
  // requires a gradient.
  std::vector<bool> reduce_at_end_;
  std::vector<bool> gathers_in_backward_;  // for each unit: whether its backward reads parameters
};

}  // namespace am::parallel
