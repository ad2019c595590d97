// Data parallelism over parameter groups: decides when each group is gathered, freed and reduced.
//
// FSDP2, HSDP, Megatron-FSDP and DDP differ in their mesh, in DataParallelOptions, and in their
// groups: units that are gathered and freed (sharded_units.h), or buckets of unsharded parameters
// (GradientBuckets of data_parallel.cpp). strategy.cpp sets the options.
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

namespace am::parallel {

struct DataParallelOptions {
  at::ScalarType storage_dtype = at::kFloat;
  Precision precision;
  std::optional<Offload> offload;
  bool cast_forward_inputs = true;
  // For each unit: whether its full parameters are freed after forward and gathered again in
  // backward.
  std::vector<bool> reshard_after_forward;
  // Parameters of each bucket, as indices into the layout's parameters; empty: the parameters are
  // in sharded units instead. The gradients of a bucket are reduced in one message, as soon as the
  // last of them is computed. The full parameters of all buckets are in memory from the first
  // unit's forward until backward is over.
  std::vector<std::vector<int>> buckets;
  // reshard_after_forward = N of PyTorch: number of ranks over which units are resharded after
  // forward. 0: the whole shard group.
  int64_t post_forward_size = 0;
  layout::PrefetchDepths prefetch;
  // Whether units are reduced during backward, and not only when it is over.
  bool overlap_reduction = true;
  // Whether the freed memory of full parameters and of messages is kept for the next units.
  bool reuse_buffers = false;
  bool check_for_nan = false;  // whether finish_backward() checks the reduced gradients
  bool report_nan = false;     // see ParamGroupOptions::report_nan
};

// The parts of a model that data parallelism uses. Both vectors must outlive the call only.
struct ModelUnits {
  const std::vector<nn::ParameterPtr>& parameters;  // in the order of Layout::parameters
  const std::vector<nn::UnitUse>& uses;             // uses of the units, in forward order
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
  // Returns GradientBuckets if the options have buckets, otherwise ShardedUnits. The result is the
  // hooks that the model must call, and must outlive the model's passes.
  static std::unique_ptr<DataParallel> make(const ModelUnits& model, const layout::Layout& layout,
                                            const runtime::DeviceMesh& mesh,
                                            DataParallelOptions options);

  std::vector<std::unique_ptr<ParamGroup>>& groups() { return groups_; }
  const std::vector<std::unique_ptr<ParamGroup>>& groups() const { return groups_; }
  // Whether the sharded parameters are stored in host memory while a GPU computes.
  bool offloaded() const { return options_.offload.has_value(); }

  // False: the next backward passes only accumulate unreduced gradients on this rank (as in
  // PyTorch).
  void set_requires_gradient_sync(bool sync) { sync_ = sync; }
  bool requires_gradient_sync() const { return sync_; }
  // False: finish_backward() leaves the last reductions in flight, so that they overlap with
  // another backward pass (as in PyTorch). flat_grad() is complete after a backward pass for which
  // this is true.
  void set_is_last_backward(bool last) { last_backward_ = last; }
  // False: units keep their full parameters after their backward, for the next micro-batch's
  // forward, until reshard() (as in PyTorch). An optimizer's updates reach the full parameters only
  // after reshard().
  void set_reshard_after_backward(bool reshard) { reshard_after_backward_ = reshard; }
  // Reduces the gradients that backward passes without sync have accumulated, last unit first,
  // regardless of set_requires_gradient_sync; collective. flat_grad() is complete after it.
  void reduce_gradients();
  // Sets the divisor of the gradients, which are sums over the ranks. The default is 1, because the
  // loss is divided by the number of labels of the global batch; in PyTorch's function of this
  // name, the default is the number of data-parallel ranks.
  void set_gradient_divide_factor(double factor);
  // Call it after loss.backward(): reduces the gradients that the hooks have not reduced, waits for
  // all reductions, and frees the full parameters. With check_for_nan, throws Error(kNumeric),
  // which names parameter and rank, if a reduced gradient is not finite.
  void finish_backward();
  void zero_grad();
  // Makes the next gathers wait for the work of the current stream, such as an optimizer's update.
  // The first unit's forward calls it; a unit that runs by itself needs it before.
  void wait_for_updates() { gathers_.wait_for_current(); }
  // Returns this object as the hooks that a model calls.
  nn::UnitHooks& hooks() { return *this; }
  // Returns the unit whose work was last enqueued on the device; it is empty outside of forward and
  // backward.
  const UnitPlace& place() const { return place_; }

  // unshard() gathers the units that contain parameters of a module, for example "model.layers.3"
  // or "model.layers.3.mlp"; "" means the whole model. reshard() frees the units. Collective. Both
  // throw Error(kUsage) if no parameter matches. With `async_op`, unshard() returns immediately,
  // and the handle's wait() completes the gathering.
  UnshardHandle unshard(std::string_view module, bool async_op = false);
  void reshard(std::string_view module);

 protected:
  DataParallel(const ModelUnits& model, const layout::Layout& layout,
               const runtime::DeviceMesh& mesh, DataParallelOptions options);

  // Record the unit that is running, for place(). enter() records it in forward. note_backward()
  // registers hooks that record it when backward reaches `outputs`. Subclasses call both functions
  // first in their unit hooks.
  void enter(size_t use) { place_.forward(use); }
  void note_backward(size_t use, std::span<const at::Tensor> outputs);
  const DataParallelOptions& options() const { return options_; }
  // Returns the options that are common to all groups.
  ParamGroupOptions group_options();
  tensor::SideStream& gathers() { return gathers_; }
  // Groups over which parameters are sharded and gradients reduced. Dense parameters are sharded
  // over dp_shard_cp and replicated over dp_replicate. Under expert parallelism, experts are
  // sharded over ep_shard, which spans replicas and tp ranks too.
  struct Ranks {
    ReductionGroups dense;
    ReductionGroups experts;
  };
  // Collective: returns the groups for the layout. Called once.
  Ranks ranks_of(const layout::Layout& layout, const runtime::DeviceMesh& mesh);
  // Returns a group of this rank alone.
  const runtime::Group& alone() const { return alone_; }
  ParamGroup& add_group(const ModelUnits& model, const layout::Layout& layout, std::string name,
                        const std::vector<int>& parameters, const runtime::DeviceMesh& mesh,
                        const ReductionGroups& groups, const ParamGroupOptions& options);
  // Casts floating-point inputs to param_dtype if cast_forward_inputs is set.
  void cast_inputs(std::span<at::Tensor> inputs) const;
  // Starts reducing the groups' gradients. Without sync, keeps them for a backward pass with sync.
  void reduce(std::span<ParamGroup* const> groups);
  void reduce(ParamGroup& group) {
    ParamGroup* const one = &group;
    reduce({&one, 1});
  }
  // Frees the group's full parameters, unless they stay until reshard(). Call it after the group's
  // backward.
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
  // Gradients that are reduced together: all gradients of one unit or one bucket.
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
  std::deque<Reduction> reducing_;  // reductions in flight, oldest first
  bool sync_ = true;
  bool last_backward_ = true;
  bool reshard_after_backward_ = true;
};

}  // namespace am::parallel
