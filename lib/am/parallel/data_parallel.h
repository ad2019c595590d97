// Data parallelism over units: when to gather, free and reduce each ParamGroup during forward and
// backward.
//
// FSDP2, HSDP, Megatron-FSDP and DDP differ in the mesh they are given and in these options alone;
// see fsdp2/fsdp2.h, megatron_fsdp/megatron_fsdp.h and ddp/ddp.h for how each is set up.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "am/nn/decoder.h"
#include "am/parallel/fsdp2/param_group.h"
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
  // Parameters (indices into the layout's) that travel together; empty: each unit's. Buckets are
  // whole from the first unit's forward until backward is over, and reduced when they are full.
  std::vector<std::vector<int>> buckets;
  // The ranks that keep such a unit whole between them until then: blocks of the shard group. 0:
  // every rank keeps its shard alone.
  int64_t post_forward_size = 0;
  planner::PrefetchDepths prefetch;
  bool overlap_reduction = true;  // false: all units are reduced when backward is over
  bool reuse_buffers = false;     // keep the memory of full tensors and of messages for the next
  bool check_for_nan = false;     // see finish_backward
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
  DataParallel(nn::Decoder& decoder, const planner::Layout& layout, const runtime::DeviceMesh& mesh,
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

  at::Tensor before_unit(int unit, const at::Tensor& input) override;
  at::Tensor after_unit(int unit, const at::Tensor& output) override;

 private:
  void pre_backward(int unit);
  void post_backward(int unit);
  void prefetch(int unit, int step, int64_t depth);
  void reduce(ParamGroup& group);
  void add_group(const nn::Decoder& decoder, const planner::Layout& layout, std::string name,
                 const std::vector<int>& parameters, const runtime::DeviceMesh& mesh,
                 const ReductionGroups& groups, const ParamGroupOptions& options);
  void add_groups(const nn::Decoder& decoder, const planner::Layout& layout,
                  const runtime::DeviceMesh& mesh, ParamGroupOptions options);
  at::Tensor cast_input(const at::Tensor& x) const;
  std::vector<ParamGroup*> groups_of(std::string_view module) const;
  void check_gradients() const;

  DataParallelOptions options_;
  int64_t rank_;
  BufferPool pool_;
  std::optional<runtime::Group> post_forward_group_;
  std::optional<runtime::Group> alone_;              // this rank
  std::vector<std::unique_ptr<ParamGroup>> groups_;  // by unit and what is ignored, or by bucket
  ParamGroup* ignored_ = nullptr;                    // whole parameters outside of any unit
  std::vector<int> forward_order_;                   // units as the forward pass meets them
  std::vector<bool> reduce_at_end_;                  // units whose input carries no gradient
  std::vector<bool> gathers_in_backward_;            // units whose backward reads parameters
  bool inside_lookup_ = false;                       // the unit being computed takes token ids
  std::deque<ParamGradients*> reducing_;             // in flight, oldest first
  bool sync_ = true;
  bool last_backward_ = true;
};

}  // namespace am::parallel
