// Units whose full parameters exist only while they are needed: FSDP2, HSDP, Megatron-FSDP's
// sharded levels, and what FSDP ignores.
//
// A unit is gathered before its forward, freed after it or kept until backward, gathered again
// before its backward, and reduced after it; the next ones are gathered meanwhile.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "am/parallel/data_parallel.h"

namespace am::parallel {

class ShardedUnits final : public DataParallel {
 public:
  ShardedUnits(nn::Decoder& decoder, const planner::Layout& layout, const runtime::DeviceMesh& mesh,
               DataParallelOptions options);

  void before_unit(size_t use, std::span<at::Tensor> inputs) override;
  void after_unit(size_t use, std::span<at::Tensor> outputs) override;

 private:
  void finish(ParamGroup& group) override;
  void forget_pass() override;
  void add_ignored(const nn::Decoder& decoder, const planner::Layout& layout,
                   const runtime::DeviceMesh& mesh, ReductionGroups groups,
                   ParamGroupOptions options);
  ParamGroup& group_of(size_t use) { return *groups()[unit_of(use)]; }
  size_t unit_of(size_t use) const { return static_cast<size_t>(uses_[use].unit); }
  void pre_backward(size_t use);
  void post_backward(size_t use);
  void prefetch(size_t use, int step, int64_t depth);
  void reshard_and_reduce(ParamGroup& group);

  std::vector<nn::UnitUse> uses_;  // as the forward pass meets them
  BufferPool pool_;
  std::optional<runtime::Group> post_forward_group_;
  std::optional<runtime::Group> alone_;    // this rank
  ParamGroup* ignored_ = nullptr;          // whole parameters outside of any unit
  std::vector<bool> reduce_at_end_;        // units whose input carries no gradient
  std::vector<bool> gathers_in_backward_;  // units whose backward reads parameters
};

}  // namespace am::parallel
