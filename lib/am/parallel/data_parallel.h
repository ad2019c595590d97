// Data parallelism over groups of parameters: when each is gathered, freed and reduced.
//
// FSDP2, HSDP, Megatron-FSDP and DDP differ in the mesh they are given, in these options, and in
// what their groups are: units that come and go (sharded_units.h), or buckets that stay
// (gradient_buckets.h). See fsdp2/fsdp2.h, megatron_fsdp/megatron_fsdp.h and ddp/ddp.h for how each
// is set up.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/nn/decoder.h"
#include "am/nn/hooks.h"
#include "am/parallel/param_group/param_group.h"
#include "am/planner/layout.h"
#include "am/planner/units.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel {

struct DataParallelOptions {
  at::ScalarType storage_dtype = at::kFloat;
  Precision precision;
  std::optional<Offload> offload;
  bool cast_forward_inputs = true;
  // Per unit: free the full parameters after forward and gather them again in backward.
  std::vector<bool> reshard_after_forward;
  // Parameters (indices into the layout's) that are one message; empty: each unit's. Buckets are
  // whole from the first unit's forward until backward is over, and reduced when they are full.
  std::vector<std::vector<int>> buckets;
  // After forward such a unit is cut over groups of this many ranks instead of the whole shard
  // group (PyTorch: reshard_after_forward = N). 0: every rank keeps its shard alone.
  int64_t post_forward_size = 0;
  planner::PrefetchDepths prefetch;
  bool overlap_reduction = true;  // false: all units are reduced when backward is over
  bool reuse_buffers = false;     // keep the memory of full tensors and of messages for the next
  bool check_for_nan = false;     // see finish_backward
  bool report_nan = false;        // see ParamGroupOptions
};

// Units that are being gathered. wait() ends it; idempotent.
class UnshardHandle {
 public:
  explicit UnshardHandle(std::vector<ParamGroup*> groups) : groups_(std::move(groups)) {}
  void wait();

 private:
  std::vector<ParamGroup*> groups_;
};

class DataParallel : public nn::UnitHooks {
 public:
  // Buckets where the options have some, else units. The decoder's hooks are what it returns, which
  // must outlive its use.
  static std::unique_ptr<DataParallel> make(nn::Decoder& decoder, const planner::Layout& layout,
                                            const runtime::DeviceMesh& mesh,
                                            DataParallelOptions options);

  std::vector<std::unique_ptr<ParamGroup>>& groups() { return groups_; }
  const std::vector<std::unique_ptr<ParamGroup>>& groups() const { return groups_; }
  // Whether what is stored is in host memory while a GPU computes.
  bool offloaded() const { return options_.offload.has_value(); }

  // False: the next backward passes keep their gradients on this rank (PyTorch's name).
  void set_requires_gradient_sync(bool sync) { sync_ = sync; }
  bool requires_gradient_sync() const { return sync_; }
  // False: finish_backward leaves the last reductions under way, for another backward pass to
  // compute meanwhile (PyTorch's name). flat_grad() is complete after one that says true.
  void set_is_last_backward(bool last) { last_backward_ = last; }
  // False: units stay whole after their backward, for the next micro-batch's forward, until
  // reshard() (PyTorch's name). Parameters that an optimizer moves meanwhile are gathered anew only
  // after that.
  void set_reshard_after_backward(bool reshard) { reshard_after_backward_ = reshard; }
  // Reduces what backward passes without sync have kept, last unit first, whatever
  // set_requires_gradient_sync says; collective. flat_grad() is complete after it.
  void reduce_gradients();
  // Gradients are sums over the ranks, divided by this. PyTorch's name; its default there is the
  // number of data-parallel ranks, here one: the loss is divided by the labels of the whole batch
  // instead.
  void set_gradient_divide_factor(double factor);
  // After loss.backward(): reduces what the hooks could not, waits for everything, frees the full
  // parameters. With check_for_nan it throws Error(kNumeric), which names parameter and rank, when
  // a reduced gradient is not finite.
  void finish_backward();
  void zero_grad();

  // Gathers the units that hold parameters of a module ("model.layers.3", "model.layers.3.mlp"; ""
  // for the whole model), and frees them again. Collective. Throws Error(kUsage) where there are
  // none. With `async_op` the handle's wait() ends the gathering, which goes on meanwhile.
  UnshardHandle unshard(std::string_view module, bool async_op = false);
  void reshard(std::string_view module);

 protected:
  DataParallel(const runtime::DeviceMesh& mesh, DataParallelOptions options);

  const DataParallelOptions& options() const { return options_; }
  // Of all groups, before their own differences.
  ParamGroupOptions group_options() const;
  // The ranks that parameters are cut and reduced over: shards lie over dp_shard_cp and their
  // copies over dp_replicate, those of experts that ep places over ep_shard, which replicas and tp
  // are in.
  struct Ranks {
    ReductionGroups dense;
    ReductionGroups experts;
  };
  // Collective; called once.
  Ranks ranks_of(const planner::Layout& layout, const runtime::DeviceMesh& mesh);
  // This rank itself.
  const runtime::Group& alone() const { return alone_; }
  ParamGroup& add_group(const nn::Decoder& decoder, const planner::Layout& layout, std::string name,
                        const std::vector<int>& parameters, const runtime::DeviceMesh& mesh,
                        const ReductionGroups& groups, const ParamGroupOptions& options);
  // To the dtype of the computation, where the options say so and it is floating-point.
  void cast_inputs(std::span<at::Tensor> inputs) const;
  // Sends the groups' gradients, or keeps them until a backward pass with sync.
  void reduce(std::span<ParamGroup* const> groups);
  void reduce(ParamGroup& group) {
    ParamGroup* const one = &group;
    reduce({&one, 1});
  }
  // After the group's backward.
  void reshard_after_backward(ParamGroup& group) const {
    if (reshard_after_backward_) group.reshard();
  }

 private:
  // What is still to be done for a group when the loss's backward is over, in the groups' order.
  virtual void finish(ParamGroup& group) = 0;
  // After that: the next forward pass begins anew.
  virtual void forget_pass() {}

  std::vector<ParamGroup*> groups_of(std::string_view module) const;
  // What is reduced together: a unit's gradients.
  using Reduction = std::vector<GradientReducer*>;
  void send(Reduction reduction);
  void finish_reductions();
  void check_gradients() const;

  DataParallelOptions options_;
  int64_t rank_;
  std::optional<runtime::Group> key_head_group_;
  runtime::Group alone_;
  std::vector<std::unique_ptr<ParamGroup>> groups_;
  std::deque<Reduction> reducing_;  // in flight, oldest first
  bool sync_ = true;
  bool last_backward_ = true;
  bool reshard_after_backward_ = true;
};

}  // namespace am::parallel
