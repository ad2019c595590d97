#include "am/frameworks/framework_layout.h"

#include <variant>

#include "am/layout/stages.h"

namespace am::frameworks {

int64_t FrameworkLayout::dp() const {
  if (dp_size > 0) return dp_size;
  return world % replica() == 0 ? world / replica() : 0;
}

FrameworkLayout framework_layout(const config::Plan& plan, const model::ModelConfig* model,
                                 int64_t launched) {
  FrameworkLayout layout;
  layout.megatron_fsdp = std::get_if<config::MegatronFSDPConfig>(&plan.strategy);
  layout.ddp = std::holds_alternative<config::DDPConfig>(plan.strategy);
  layout.dp_size = plan.mesh.dp_size;
  layout.dp_replicate = plan.mesh.dp_replicate_size;
  layout.tp = plan.mesh.tp_size;
  layout.cp = plan.mesh.cp_size;
  layout.pp = plan.mesh.pp_size;
  layout.ep = plan.mesh.ep_size;
  layout.world = launched > 0 ? launched : plan.mesh.world_size;
  if (layout.world == 0) layout.world = layout.dp_size * layout.replica();
  const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy);
  layout.sequence_parallel = fsdp2 != nullptr && fsdp2->sequence_parallel;
  layout.model = model;
  layout.seq_len = plan.train.seq_len;
  layout.micro_batch = plan.train.micro_batch_size;
  layout.global_batch = plan.train.global_batch_size;
  layout.pipeline = layout::pipeline_shape(plan.pipeline, layout.pp);
  layout.split_points = !plan.pipeline.split_points.empty() || plan.pipeline.balance == "cost";
  return layout;
}

}  // namespace am::frameworks
