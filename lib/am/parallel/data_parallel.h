// Data parallelism over units: when to gather, free and reduce each ParamGroup during forward and
// backward.
//
// FSDP2, HSDP, Megatron-FSDP and DDP differ in the mesh they are given and in these options alone;
// see fsdp2/fsdp2.h, megatron_fsdp/megatron_fsdp.h and ddp/ddp.h for how each is set up.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
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
  bool cast_forward_inputs = true;
  // Per unit: free the full parameters after forward and gather them again in backward.
  std::vector<bool> reshard_after_forward;
  planner::PrefetchDepths prefetch;
  bool overlap_reduction = true;  // false: all units are reduced when backward is over
  bool check_for_nan = false;     // see finish_backward
};

class DataParallel : public nn::UnitHooks {
 public:
  DataParallel(nn::Decoder& decoder, const planner::Layout& layout, const runtime::DeviceMesh& mesh,
               DataParallelOptions options);

  std::vector<std::unique_ptr<ParamGroup>>& groups() { return groups_; }
  const std::vector<std::unique_ptr<ParamGroup>>& groups() const { return groups_; }

  // False: the next backward passes keep their gradients on this rank (PyTorch's name).
  void set_requires_gradient_sync(bool sync) { sync_ = sync; }
  bool requires_gradient_sync() const { return sync_; }
  // After loss.backward(): reduces what the hooks could not, waits for everything, frees the full
  // parameters. With check_for_nan it throws Error(kRuntime), which names parameter and rank, when
  // a reduced gradient is not finite.
  void finish_backward();
  void zero_grad();

  at::Tensor before_unit(int unit, const at::Tensor& input) override;
  at::Tensor after_unit(int unit, const at::Tensor& output) override;

 private:
  void pre_backward(int unit);
  void post_backward(int unit);
  void prefetch(int unit, int step, int64_t depth);
  void check_gradients() const;

  DataParallelOptions options_;
  int64_t rank_;
  std::vector<std::unique_ptr<ParamGroup>> groups_;  // by unit
  std::vector<int> forward_order_;                   // units as the forward pass meets them
  std::vector<bool> reduce_at_end_;                  // units whose input carries no gradient
  bool inside_lookup_ = false;                       // the unit being computed takes token ids
  int reducing_ = -1;                                // unit whose reduction is in flight
  bool sync_ = true;
};

}  // namespace am::parallel
