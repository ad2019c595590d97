// The sizes of a plan that other frameworks' validators check.
//
//   const FrameworkLayout layout = framework_layout(plan, &model, 0);
//   layout.dp();  // 4 of 16 ranks with tp_size = 4; 0 when the sizes make no world
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/pipeline/shape.h"

namespace am::frameworks {

struct FrameworkLayout {
  const config::MegatronFSDPConfig* megatron_fsdp = nullptr;  // null for other strategies
  bool ddp = false;
  int64_t world = 0;    // 0: unknown
  int64_t dp_size = 0;  // as written; 0: derived from the world size
  int64_t dp_replicate = 1;
  int64_t tp = 1;
  int64_t cp = 1;
  int64_t pp = 1;
  int64_t ep = 1;
  bool sequence_parallel = false;

  const model::ModelConfig* model = nullptr;  // null if it could not be read
  int64_t seq_len = 0;
  int64_t micro_batch = 1;   // sequences per forward pass
  int64_t global_batch = 0;  // sequences per step; 0: the minimum that the framework accepts
  pipeline::PipelineShape pipeline;  // microbatches: one per stage if the plan does not set them
  bool split_points = false;         // stages are set by split points, not split evenly

  bool fsdp2() const { return !ddp && megatron_fsdp == nullptr; }
  // tp * cp * pp
  int64_t replica() const { return tp * cp * pp; }
  // dp_size, or the rest of the world; 0 if the world is unknown or not a multiple of replica().
  int64_t dp() const;
  int64_t experts() const { return model != nullptr && model->moe ? model->moe->experts : 0; }
  // torchtitan's and NeMo AutoModel's local batch: all micro-batches of one run of the pipeline's
  // schedule, or one without a pipeline.
  int64_t local_batch() const { return micro_batch * (pp > 1 ? pipeline.microbatches : 1); }
  int64_t stages() const { return pp * pipeline.virtual_stages; }
};

// `launched`: the launcher's number of ranks, or 0. `plan` and `model` must outlive the result.
FrameworkLayout framework_layout(const config::Plan& plan, const model::ModelConfig* model,
                                 int64_t launched);

}  // namespace am::frameworks
