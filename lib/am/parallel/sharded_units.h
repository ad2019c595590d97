// Units whose full parameters exist only while they are needed: FSDP2, HSDP, Megatron-FSDP's
// sharded levels, and what FSDP ignores.
//
// A unit is gathered before its forward, freed after it or kept until backward, gathered again
// before its backward, and reduced after it; the next ones are gathered meanwhile. A unit is one
// group of parameters, and with experts that expert parallelism places a second one.
#pragma once

#include <list>
#include <span>
#include <string_view>
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
  // Blocks of a group of ranks, between forward and backward; null: there are none.
  const runtime::Group* post_forward(const runtime::DeviceMesh& mesh, std::string_view group);
  void add_ignored(const nn::Decoder& decoder, const planner::Layout& layout,
                   const runtime::DeviceMesh& mesh, Ranks ranks, ParamGroupOptions options);
  const std::vector<ParamGroup*>& groups_of(size_t use) const { return units_[unit_of(use)]; }
  size_t unit_of(size_t use) const { return static_cast<size_t>(uses_[use].unit); }
  void pre_backward(size_t use);
  void post_backward(size_t use);
  void prefetch(size_t use, int step, int64_t depth);
  void unshard(size_t use);
  void reshard_and_reduce(std::span<ParamGroup* const> groups);

  std::vector<nn::UnitUse> uses_;  // as the forward pass meets them
  BufferPool pool_;
  std::list<runtime::Group> post_forward_groups_;
  std::vector<std::vector<ParamGroup*>> units_;
  std::vector<ParamGroup*> ignored_;       // whole parameters outside of any unit
  std::vector<bool> reduce_at_end_;        // units whose input carries no gradient
  std::vector<bool> gathers_in_backward_;  // units whose backward reads parameters
};

}  // namespace am::parallel
