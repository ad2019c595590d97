#include "am/predict/time/measured_layout.h"

#include <algorithm>
#include <cmath>

#include "am/layout/stages.h"

namespace am::predict {
namespace {

// Numbers of parameter elements of one layer. `cut`: elements that tp shards; `whole`: elements
// replicated over tp; `experts`: elements of all routed experts together.
struct LayerElements {
  double cut = 0.0, whole = 0.0, experts = 0.0;
};
LayerElements elements_of(double hidden, bool biases, const model::LayerProfile& layer) {
  const auto n = [](int64_t size) { return static_cast<double>(size); };
  const model::AttentionProfile& a = layer.attention;
  const double heads = n(a.heads), qk = n(a.qk_head_dim), v = n(a.v_head_dim);
  const double q_rank = n(a.q_lora_rank), kv_rank = n(a.kv_lora_rank), rope = n(a.rope_head_dim);
  LayerElements of{.cut = heads * v * hidden, .whole = 2.0 * hidden};
  if (a.kv_lora_rank > 0) {
    of.whole += hidden * (q_rank + kv_rank + rope) + q_rank + kv_rank;
    of.cut +=
        (a.q_lora_rank > 0 ? q_rank : hidden) * heads * qk + kv_rank * heads * (qk - rope + v);
  } else {
    of.cut += hidden * (heads * qk + n(a.key_value_heads) * (qk + v));
  }
  const model::FeedForwardProfile& mlp = layer.feed_forward;
  const double matrices = mlp.gated ? 3.0 : 2.0;
  of.cut += matrices * hidden * n(mlp.dense_width + mlp.shared_width);
  of.experts = n(mlp.experts) * matrices * hidden * n(mlp.expert_width);
  of.whole += hidden * n(mlp.experts);
  if (biases) {
    of.cut += (heads + 2.0 * n(a.key_value_heads)) * qk + (matrices - 1.0) * n(mlp.dense_width);
    of.whole += 4.0 * hidden;
  }
  return of;
}

// Returns a section [pipeline] with the split_points for `layers` layers on `stages` stages.
// split_points stays empty, for the default split, if all stages can have equally many layers, or
// if layers + 2 is not a multiple of `stages`. Otherwise the embedding and the head count as one
// layer each, as in Megatron and torchtitan.
config::PipelineSection stages_of(int64_t layers, int64_t stages) {
  config::PipelineSection pipeline;
  if (stages < 2 || layers % stages == 0 || (layers + 2) % stages != 0) return pipeline;
  const int64_t share = (layers + 2) / stages;
  for (int64_t stage = 1; stage < stages; ++stage) {
    pipeline.split_points.push_back(stage * share - 1);
  }
  return pipeline;
}

}  // namespace

// Assumes that the layers of each group are consecutive, and that groups follow each other in the
// order of workload.model.layers.
void sketch_layout(const ModelExtras& extras, double checkpointed, Workload& workload) {
  const ModelShape& model = workload.model;
  LayoutSummary& layout = workload.layout = {};
  int64_t layers = 0;
  for (const LayerGroup& group : model.layers) {
    const LayerElements of = elements_of(model.hidden, extras.biases, group.profile);
    layout.of_layer.push_back(
        {of.cut / workload.tp + of.whole, of.experts / (workload.ep * workload.expert_tp)});
    layers += std::llround(group.count);
  }
  layout.table = local_vocabulary(workload) * model.hidden;
  const auto owners = pipeline::stage_owners(workload.schedule, std::llround(workload.pp),
                                             std::llround(workload.virtual_stages));
  const size_t kinds = model.layers.size();
  layout.stages = empty_stages(owners, kinds);
  const auto stages = static_cast<int64_t>(owners.size());
  const auto stage_of = layout::stage_of_layers(stages_of(layers, stages), layers, stages);
  size_t layer = 0;
  for (size_t kind = 0; kind < kinds; ++kind) {
    for (int64_t i = 0; i < std::llround(model.layers[kind].count); ++i, ++layer) {
      StageSummary& stage = layout.stages[static_cast<size_t>(stage_of[layer])];
      stage.layers[kind] += 1.0;
      stage.checkpointed[kind] += checkpointed;
      stage.parameters.add(layout.of_layer[kind]);
    }
  }
  layout.stages.front().parameters.dense += layout.table + extras.learned_positions * model.hidden;
  // A tied head that is on another rank than the embedding has its own copy of the embedding table.
  const bool has_head = !extras.tied || owners.back() != owners.front();
  layout.stages.back().parameters.dense += model.hidden + (has_head ? layout.table : 0.0);

  layout.dense = {.shards = workload.dp_shard * workload.cp,
                  .replicas = workload.dp_replicate,
                  .stride = workload.tp};
  const double expert_stride = workload.ep * workload.expert_tp;
  layout.experts = {
      .shards = std::max(1.0, workload.dp_shard * workload.cp * workload.tp / expert_stride),
      .replicas = workload.dp_replicate,
      .stride = expert_stride};
}

}  // namespace am::predict
