// Buckets of unsharded parameters, whose gradients are reduced in one message per bucket: DDP, and
// Megatron-FSDP's levels that do not shard parameters. All buckets are whole from the first unit's
// forward until backward is over.
#pragma once

#include <span>

#include "am/parallel/data_parallel.h"

namespace am::parallel {

class GradientBuckets final : public DataParallel {
 public:
  GradientBuckets(const nn::Decoder& decoder, const layout::Layout& layout,
                  const runtime::DeviceMesh& mesh, DataParallelOptions options);

  void before_unit(size_t use, std::span<at::Tensor> inputs) override;
  void after_unit(size_t use, std::span<at::Tensor> outputs) override;

 private:
  void finish(ParamGroup& group) override;
};

}  // namespace am::parallel
