// A plan as other frameworks see it: the numbers that their own validators look at.
//
//   const DialectLayout layout = dialect_layout(plan, &model, 0);
//   layout.dp();  // 4 of 16 ranks with tp_size = 4; 0 when the sizes make no world
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/pipeline/shape.h"

namespace am::planner {

struct DialectLayout {
  const config::MegatronFSDPConfig* megatron_fsdp = nullptr;  // when that is the strategy
  bool ddp = false;
  int64_t world = 0;    // 0: nobody says
  int64_t dp_size = 0;  // as written; 0: what the world leaves
  int64_t dp_replicate = 1;
  int64_t tp = 1;
  int64_t cp = 1;
  int64_t pp = 1;
  int64_t ep = 1;
  bool sequence_parallel = false;

  const model::ModelConfig* model = nullptr;  // absent when it could not be read
  int64_t seq_len = 0;
  int64_t micro_batch = 1;           // sequences of one forward
  int64_t global_batch = 0;          // sequences of one step; 0: the least that the framework takes
  pipeline::PipelineShape pipeline;  // microbatches: one for each stage where the plan is silent
  bool split_points = false;         // stages are listed, not assigned evenly

  bool fsdp2() const { return !ddp && megatron_fsdp == nullptr; }
  // tp * cp * pp
  int64_t replica() const { return tp * cp * pp; }
  // dp_size, or what the world leaves; 0 when the world is unknown or not a multiple of replica().
  int64_t dp() const;
  int64_t experts() const { return model != nullptr && model->moe ? model->moe->experts : 0; }
  // What torchtitan and NeMo AutoModel call the local batch: all micro-batches that one run of the
  // pipeline's schedule takes, or one without a pipeline.
  int64_t local_batch() const { return micro_batch * (pp > 1 ? pipeline.microbatches : 1); }
  int64_t stages() const { return pp * pipeline.virtual_stages; }
};

// `launched`: a launcher's number of ranks, or 0. The plan and the model outlive the result.
DialectLayout dialect_layout(const config::Plan& plan, const model::ModelConfig* model,
                             int64_t launched);

}  // namespace am::planner
