// Buckets of whole parameters whose gradients are one message each: DDP, and Megatron-FSDP's levels
// that shard no parameters. All are whole from the first unit's forward until backward is over.
#pragma once

#include <span>

#include "am/parallel/data_parallel.h"

namespace am::parallel {

class GradientBuckets final : public DataParallel {
 public:
  GradientBuckets(const nn::Decoder& decoder, const planner::Layout& layout,
                  const runtime::DeviceMesh& mesh, DataParallelOptions options);

  void before_unit(size_t use, std::span<at::Tensor> inputs) override;
  void after_unit(size_t /*use*/, std::span<at::Tensor> /*outputs*/) override {}

 private:
  void finish(ParamGroup& group) override;
};

}  // namespace am::parallel
