// Data parallelism over parameter groups: decides when each group is gathered, freed and reduced.
//
// FSDP2, HSDP, Megatron-FSDP, the strategy megatron and DDP differ in their mesh, in
// DataParallelOptions, and in their parameter groups. A group is either a bucket or a part of a
// unit. Units are gathered and freed one by one (sharded_units.h). All buckets stay gathered from
// the first unit's forward to the end of backward (GradientBuckets in data_parallel.cpp).
// strategy.cpp sets the options.
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
#include "am/nn/hooks.h"
#include "am/nn/layers.h"
#include "am/parallel/param_group/param_group.h"
#include "am/parallel/unit_place.h"
#include "am/runtime/device_mesh.h"
#include "am/runtime/trace_range.h"

namespace am::parallel {

struct DataParallelOptions {
  at::ScalarType storage_dtype = at::kFloat;  // dtype of the stored shards
  Precision precision;
  std::optional<Offload> offload;
  bool cast_forward_inputs = true;  // whether units cast their inputs to precision.param_dtype
  // For each unit: whether its full parameters are freed after forward and gathered again for
  // backward.
  std::vector<bool> reshard_after_forward;
  // Parameters of each bucket, as indices into Layout::parameters. Empty: there are no buckets;
  // parameters are gathered and gradients are reduced unit by unit. The gradients of a bucket are
  // reduced in one message: as soon as the last gradient is computed, or after backward if
  // overlap_reduction is false or the bucket contains experts. The full parameters of all buckets
  // are in memory from the first unit's forward until backward is over.
  std::vector<std::vector<int>> buckets;
  // Number of ranks over which parameters are resharded after forward (PyTorch's
  // reshard_after_forward = N); 0: all ranks of the shard group.
  int64_t post_forward_size = 0;
  layout::PrefetchDepths prefetch;
  // Whether each unit's gradients are reduced during backward; if false, all gradients are reduced
  // after backward.
  bool overlap_reduction = true;
  // Whether the decoder layers reuse each other's memory of freed full parameters and communication
  // buffers. All other units, such as the embedding, allocate new memory each time.
  bool reuse_buffers = false;
  bool check_for_nan = false;  // whether finish_backward() checks that gradients are finite
  bool report_nan = false;     // whether backward throws at a full gradient that is not finite
};

// The parts of a model that data parallelism uses. Functions with a ModelUnits argument read the
// two vectors only during the call.
struct ModelUnits {
  const std::vector<nn::ParameterPtr>& parameters;  // in the order of Layout::parameters
  const std::vector<nn::UnitUse>& uses;             // uses of the units, in forward order
};

// Handle of all-gathers that unshard() has started. wait() completes the all-gathers; further calls
// of wait() do nothing.
class UnshardHandle {
 public:
  explicit UnshardHandle(std::vector<ParamGroup*> groups) : groups_(std::move(groups)) {}
  void wait();

 private:
  std::vector<ParamGroup*> groups_;
};

class DataParallel : public nn::UnitHooks {
 public:
  // Returns GradientBuckets if the options have buckets, otherwise ShardedUnits. The model must
  // call the returned object as its nn::UnitHooks, and the object must outlive the model's forward
  // and backward passes.
  static std::unique_ptr<DataParallel> make(const ModelUnits& model, const layout::Layout& layout,
                                            const runtime::DeviceMesh& mesh,
                                            DataParallelOptions options);

  std::vector<std::unique_ptr<ParamGroup>>& groups() { return groups_; }
  const std::vector<std::unique_ptr<ParamGroup>>& groups() const { return groups_; }
  // Whether the sharded parameters are stored in host memory while a GPU computes.
  bool offloaded() const { return options_.offload.has_value(); }

  // With `sync` false, later backward passes accumulate unreduced gradients on this rank (as in
  // PyTorch).
  void set_requires_gradient_sync(bool sync) { sync_ = sync; }
  bool requires_gradient_sync() const { return sync_; }
  // With `last` false, finish_backward() leaves the last reductions in flight, so that they overlap
  // with the next backward pass (as in PyTorch). ParamGroup::flat_grad() is complete only after a
  // backward pass with `last` true.
  void set_is_last_backward(bool last) { last_backward_ = last; }
  // With `reshard` false, units keep their full parameters after backward, for the next
  // micro-batch's forward, until reshard() is called (as in PyTorch). An optimizer updates the
  // shards only, so the full parameters are outdated until reshard() frees them.
  void set_reshard_after_backward(bool reshard) { reshard_after_backward_ = reshard; }
  // Collective: reduces the gradients that backward passes without gradient sync have accumulated,
  // last unit first. The value of set_requires_gradient_sync() does not matter. After the call,
  // ParamGroup::flat_grad() is complete. Checks the gradients as finish_backward() does.
  void reduce_gradients();
  // Sets the number by which the sums of gradients over the ranks are divided. The default is 1,
  // because the loss is already divided by the number of labels of the global batch. PyTorch's
  // default is the number of data-parallel ranks.
  void set_gradient_divide_factor(double factor);
  // Ends a backward pass; call it after loss.backward(). Reduces the gradients that no hook has
  // reduced (not after set_requires_gradient_sync(false)), frees the full parameters (not after
  // set_reshard_after_backward(false)), and waits for all reductions (not after
  // set_is_last_backward(false)). With DataParallelOptions::check_for_nan, throws Error(kNumeric),
  // which names parameter and rank, if a reduced gradient is not finite.
  void finish_backward();
  void zero_grad();
  // Makes later gathers wait for the work on the current stream, such as an optimizer's update. The
  // forward of the first unit does the same. A caller that runs other units without the first unit
  // must call this function first.
  void wait_for_updates() { gathers_.wait_for_current(); }
  // Returns this object as the hooks that a model calls.
  nn::UnitHooks& hooks() { return *this; }
  // Returns the unit whose work was last enqueued on the device; the UnitPlace is empty outside of
  // forward and backward.
  const UnitPlace& place() const { return place_; }

  // unshard() gathers the units that contain parameters of a module, for example "model.layers.3"
  // or "model.layers.3.mlp"; "" means the whole model. reshard() frees the full parameters of these
  // units. Both functions are collective, and throw Error(kUsage) if no parameter matches. With
  // `async_op`, unshard() returns immediately, and the handle's wait() completes the gathers.
  UnshardHandle unshard(std::string_view module, bool async_op = false);
  void reshard(std::string_view module);

 protected:
  DataParallel(const ModelUnits& model, const layout::Layout& layout,
               const runtime::DeviceMesh& mesh, DataParallelOptions options);

  // Record the unit that is running, for place() and for traces. enter() begins the unit's forward,
  // and leave() ends it. leave() also registers hooks that record the unit when backward reaches
  // `outputs`; on the CPU, leave() registers them only if the step is traced. before_unit() must
  // begin with enter(), and after_unit() with leave().
  void enter(size_t use);
  void leave(size_t use, std::span<const at::Tensor> outputs);
  const DataParallelOptions& options() const { return options_; }
  // Returns the options that are common to all groups.
  ParamGroupOptions group_options();
  tensor::SideStream& gathers() { return gathers_; }
  // Groups over which parameters are sharded and gradients reduced. Dense parameters are sharded
  // over dp_shard_cp and replicated over dp_replicate. Under expert parallelism, experts are
  // sharded over ep_shard, which includes ranks along dp_replicate and tp. If the strategy shards
  // nothing, every shard group is one rank, and the other ranks are replicas.
  struct Ranks {
    ReductionGroups dense;
    ReductionGroups experts;
  };
  // Returns the groups for the layout's dense parameters and experts. Call it once. Collective,
  // because it may create the group of the tp ranks that share key heads.
  Ranks ranks_of(const layout::Layout& layout, const runtime::DeviceMesh& mesh);
  // Returns a group that consists of this rank only.
  const runtime::Group& alone() const { return alone_; }
  // Adds a ParamGroup of `parameters`, indices into Layout::parameters, to groups(). Returns the
  // group.
  ParamGroup& add_group(const ModelUnits& model, const layout::Layout& layout, std::string name,
                        const std::vector<int>& parameters, const runtime::DeviceMesh& mesh,
                        const ReductionGroups& groups, const ParamGroupOptions& options);
  // Casts floating-point inputs to param_dtype if cast_forward_inputs is set.
  void cast_inputs(std::span<at::Tensor> inputs) const;
  // Starts the reduction of the groups' gradients. If gradient sync is off
  // (set_requires_gradient_sync), keeps the gradients for a later backward pass with sync.
  void reduce(std::span<ParamGroup* const> groups);
  void reduce(ParamGroup& group) {
    ParamGroup* const one = &group;
    reduce({&one, 1});
  }
  // Frees the group's full parameters, except after set_reshard_after_backward(false). Call it
  // after the group's backward.
  void reshard_after_backward(ParamGroup& group) const {
    if (reshard_after_backward_) group.reshard();
  }

 private:
  // Reduces a group's remaining gradients. Called for all groups, in order, when the backward of
  // the loss is over.
  virtual void finish(ParamGroup& group) = 0;
  // Resets the state of one forward and backward pass. Called after finish() of all groups.
  virtual void forget_pass() {}

  std::vector<ParamGroup*> groups_of(std::string_view module) const;
  // Reducers of the gradients that are reduced together: those of one unit, or of one bucket.
  using Reduction = std::vector<GradientReducer*>;
  void send(Reduction reduction);
  void finish_reductions();
  void check_gradients() const;

  DataParallelOptions options_;
  int64_t rank_;
  std::optional<runtime::Group> key_head_group_;  // tp ranks with copies of the same key heads
  runtime::Group alone_;
  UnitPlace place_;
  tensor::SideStream gathers_;
  tensor::SideStream reductions_;
  std::vector<std::unique_ptr<ParamGroup>> groups_;
  std::deque<Reduction> reducing_;                     // reductions in flight, oldest first
  std::optional<runtime::TraceRange> forward_range_;   // range of the unit that runs forward
  std::optional<runtime::TraceRange> backward_range_;  // range of the unit that backward reached
  bool sync_ = true;
  bool last_backward_ = true;
  bool reshard_after_backward_ = true;
};

}  // namespace am::parallel
