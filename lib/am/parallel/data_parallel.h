// Data parallelism over groups of parameters: when each is gathered, freed and reduced.
//
// FSDP2, HSDP, Megatron-FSDP and DDP differ in their mesh, in these options, and in their groups:
// units that are gathered and freed (sharded_units.h), or buckets that stay whole
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

#include "am/layout/layout.h"
#include "am/layout/units.h"
#include "am/nn/decoder.h"
#include "am/nn/hooks.h"
#include "am/parallel/param_group/param_group.h"
#include "am/parallel/unit_place.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel {

struct DataParallelOptions {
  at::ScalarType storage_dtype = at::kFloat;
  Precision precision;
  std::optional<Offload> offload;
  bool cast_forward_inputs = true;
  // Per unit: free the full parameters after forward and gather them again in backward.
  std::vector<bool> reshard_after_forward;
  // Parameters of each bucket (indices into the layout's), which travel in one message; empty: one
  // message per unit. Buckets are whole from the first unit's forward until backward is over, and
  // reduced when all their gradients have arrived.
  std::vector<std::vector<int>> buckets;
  // After forward, resharded units are cut over groups of this many ranks instead of the whole
  // shard group (PyTorch: reshard_after_forward = N). 0: every rank keeps only its shard.
  int64_t post_forward_size = 0;
  layout::PrefetchDepths prefetch;
  bool overlap_reduction = true;  // false: all units are reduced when backward is over
  bool reuse_buffers = false;     // pool the memory of full tensors and of messages
  bool check_for_nan = false;     // see finish_backward
  bool report_nan = false;        // see ParamGroupOptions
};

// An all-gather of units that is in flight. wait() completes it; idempotent.
class UnshardHandle {
 public:
  explicit UnshardHandle(std::vector<ParamGroup*> groups) : groups_(std::move(groups)) {}
  void wait();

 private:
  std::vector<ParamGroup*> groups_;
};

class DataParallel : public nn::UnitHooks {
 public:
  // Makes GradientBuckets if the options have buckets, otherwise ShardedUnits, and installs the
  // result as the decoder's hooks; it must outlive their use.
  static std::unique_ptr<DataParallel> make(nn::Decoder& decoder, const layout::Layout& layout,
                                            const runtime::DeviceMesh& mesh,
                                            DataParallelOptions options);

  std::vector<std::unique_ptr<ParamGroup>>& groups() { return groups_; }
  const std::vector<std::unique_ptr<ParamGroup>>& groups() const { return groups_; }
  // Whether the sharded parameters are stored in host memory while a GPU computes.
  bool offloaded() const { return options_.offload.has_value(); }

  // False: the next backward passes accumulate their gradients on this rank (PyTorch's name).
  void set_requires_gradient_sync(bool sync) { sync_ = sync; }
  bool requires_gradient_sync() const { return sync_; }
  // False: finish_backward leaves the last reductions in flight, to overlap with another backward
  // pass (PyTorch's name). flat_grad() is complete after a backward pass with true.
  void set_is_last_backward(bool last) { last_backward_ = last; }
  // False: units stay whole after their backward, for the next micro-batch's forward, until
  // reshard() (PyTorch's name). Until then an optimizer's updates do not reach the full parameters.
  void set_reshard_after_backward(bool reshard) { reshard_after_backward_ = reshard; }
  // Reduces the gradients that backward passes without sync have accumulated, last unit first,
  // regardless of set_requires_gradient_sync; collective. flat_grad() is complete after it.
  void reduce_gradients();
  // Divides the gradients, which are sums over the ranks, by `factor`. PyTorch's name; the default
  // there is the number of data-parallel ranks, here 1: the loss is divided by the labels of the
  // whole batch instead.
  void set_gradient_divide_factor(double factor);
  // To call after loss.backward(): reduces the gradients that the hooks have not, waits for all
  // reductions, frees the full parameters. With check_for_nan it throws Error(kNumeric), which
  // names parameter and rank, if a reduced gradient is not finite.
  void finish_backward();
  void zero_grad();
  // The unit whose work was last enqueued on the device; empty outside of forward and backward.
  const UnitPlace& place() const { return place_; }

  // Gathers the units that hold parameters of a module ("model.layers.3", "model.layers.3.mlp"; ""
  // for the whole model), and frees them again. Collective. Throws Error(kUsage) if no parameter
  // matches. With `async_op` it returns immediately, and the handle's wait() completes the
  // gathering.
  UnshardHandle unshard(std::string_view module, bool async_op = false);
  void reshard(std::string_view module);

 protected:
  DataParallel(const nn::Decoder& decoder, const layout::Layout& layout,
               const runtime::DeviceMesh& mesh, DataParallelOptions options);

  // Record the unit that is running: enter() in forward, note_backward() when backward reaches
  // `outputs`. The hooks of both subclasses begin with them.
  void enter(size_t use) { place_.forward(use); }
  void note_backward(size_t use, std::span<const at::Tensor> outputs);
  const DataParallelOptions& options() const { return options_; }
  // Options that all groups have in common.
  ParamGroupOptions group_options();
  tensor::SideStream& gathers() { return gathers_; }
  // Groups that parameters are sharded and reduced over. Dense parameters: shards over dp_shard_cp,
  // replicas over dp_replicate. Experts under ep: over ep_shard, which includes replicas and tp.
  struct Ranks {
    ReductionGroups dense;
    ReductionGroups experts;
  };
  // Collective; called once.
  Ranks ranks_of(const layout::Layout& layout, const runtime::DeviceMesh& mesh);
  // The group of this rank alone.
  const runtime::Group& alone() const { return alone_; }
  ParamGroup& add_group(const nn::Decoder& decoder, const layout::Layout& layout, std::string name,
                        const std::vector<int>& parameters, const runtime::DeviceMesh& mesh,
                        const ReductionGroups& groups, const ParamGroupOptions& options);
  // Casts floating-point inputs to param_dtype if cast_forward_inputs is set.
  void cast_inputs(std::span<at::Tensor> inputs) const;
  // Starts reducing the groups' gradients, or keeps them until a backward pass with sync.
  void reduce(std::span<ParamGroup* const> groups);
  void reduce(ParamGroup& group) {
    ParamGroup* const one = &group;
    reduce({&one, 1});
  }
  // To call after the group's backward.
  void reshard_after_backward(ParamGroup& group) const {
    if (reshard_after_backward_) group.reshard();
  }

 private:
  // Reduces a group's remaining gradients when the loss's backward is over; called in the groups'
  // order.
  virtual void finish(ParamGroup& group) = 0;
  // Resets the state of a pass; called after finish() of all groups.
  virtual void forget_pass() {}

  std::vector<ParamGroup*> groups_of(std::string_view module) const;
  // Gradients that are reduced together: one unit's.
  using Reduction = std::vector<GradientReducer*>;
  void send(Reduction reduction);
  void finish_reductions();
  void check_gradients() const;

  DataParallelOptions options_;
  int64_t rank_;
  std::optional<runtime::Group> key_head_group_;
  runtime::Group alone_;
  UnitPlace place_;
  tensor::SideStream gathers_;
  tensor::SideStream reductions_;
  std::vector<std::unique_ptr<ParamGroup>> groups_;
  std::deque<Reduction> reducing_;  // in flight, oldest first
  bool sync_ = true;
  bool last_backward_ = true;
  bool reshard_after_backward_ = true;
};

}  // namespace am::parallel
