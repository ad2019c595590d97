#include "am/planner/cost/measured_models.h"

#include <algorithm>
#include <cmath>

#include "am/base/text.h"
#include "am/planner/cost/csv.h"
#include "am/planner/stages.h"

namespace am::planner {
namespace {

using model::LayerProfile;

// Absurd figures stay absurd, but are numbers.
int64_t whole(double value) {
  return std::isfinite(value) ? std::llround(std::clamp(value, -1e12, 1e12)) : 0;
}

// Of one layer's matrices, in elements: what tp cuts, the rest, and the experts, all of them.
struct LayerElements {
  double cut = 0.0, whole = 0.0, experts = 0.0;
};
LayerElements elements_of(const Figures& f, const LayerProfile& layer) {
  const double h = f.hidden;
  LayerElements of{.cut = f.heads * f.v * h, .whole = 2.0 * h};
  if (f.kv_rank > 0.0) {
    of.whole += h * (f.q_rank + f.kv_rank + f.rope) + f.q_rank + f.kv_rank;
    of.cut += (f.q_rank > 0.0 ? f.q_rank : h) * f.heads * f.qk +
              f.kv_rank * f.heads * (f.qk - f.rope + f.v);
  } else {
    of.cut += h * (f.heads * f.qk + f.kv_heads * (f.qk + f.v));
  }
  const model::FeedForwardProfile& mlp = layer.feed_forward;
  const double matrices = f.gated ? 3.0 : 2.0;
  of.cut += matrices * h * static_cast<double>(mlp.dense_width + mlp.shared_width);
  if (mlp.experts > 0) {
    of.experts = f.experts * matrices * h * f.expert_width;
    of.whole += h * f.experts;
  }
  if (f.biases) {
    of.cut += (f.heads + 2.0 * f.kv_heads) * f.qk +
              (matrices - 1.0) * static_cast<double>(mlp.dense_width);
    of.whole += 4.0 * h;
  }
  return of;
}

// Megatron and torchtitan count the embedding and the head as a layer each where that divides and
// the layers alone do not.
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

ModelShape shape_of(const Figures& f) {
  LayerProfile dense;
  dense.attention = {.heads = whole(f.heads),
                     .key_value_heads = whole(f.kv_heads),
                     .qk_head_dim = whole(f.qk),
                     .v_head_dim = whole(f.v),
                     .q_lora_rank = whole(f.q_rank),
                     .kv_lora_rank = whole(f.kv_rank),
                     .rope_head_dim = whole(f.rope)};
  dense.feed_forward = {.gated = f.gated, .dense_width = whole(f.width)};
  LayerProfile moe = dense;
  moe.feed_forward = {.gated = f.gated,
                      .experts = whole(f.experts),
                      .experts_per_token = whole(f.taken),
                      .expert_width = whole(f.expert_width),
                      .shared_width = whole(f.shared_width)};
  ModelShape shape;
  shape.hidden = f.hidden;
  shape.vocabulary = f.vocabulary;
  if (f.layers > f.moe_layers) shape.layers.push_back({f.layers - f.moe_layers, dense});
  if (f.moe_layers > 0) shape.layers.push_back({f.moe_layers, moe});
  return shape;
}

MeasuredModels::MeasuredModels(std::string_view text, Diagnostics& found) {
  for (const CsvRow& row : parse_csv(text, "models.csv", found).rows) {
    const auto n = [&](const char* column) { return row.number(column).value_or(0.0); };
    Figures f;
    f.hidden = n("hidden_size");
    f.layers = n("layers");
    f.heads = n("heads");
    f.kv_heads = n("key_value_heads");
    f.qk = n("qk_head_dim");
    f.v = n("v_head_dim");
    f.width = n("intermediate_size");
    f.gated = n("gated") > 0.0;
    f.vocabulary = n("vocab_size");
    f.tied = n("tied") > 0.0;
    f.experts = n("experts");
    f.taken = n("experts_per_token");
    f.expert_width = n("expert_size");
    f.shared_width = n("shared_size");
    f.moe_layers = n("moe_layers");
    f.q_rank = n("q_lora_rank");
    f.kv_rank = n("kv_lora_rank");
    f.rope = n("rope_head_dim");
    if (f.hidden > 0.0 && f.layers > 0.0 && f.heads > 0.0) models_[row.text("model")] = f;
  }
}

const Figures* MeasuredModels::find(const std::string& name) const {
  const auto found = models_.find(name);
  return found == models_.end() ? nullptr : &found->second;
}

std::optional<Figures> figures_of_notes(const std::map<std::string, std::string>& notes) {
  const auto text = [&](const char* key) {
    const auto found = notes.find(key);
    return found == notes.end() ? std::string() : found->second;
  };
  const auto number = [&](const char* key, double otherwise) {
    const std::string value = text(key);
    return value.empty() ? otherwise : std::strtod(value.c_str(), nullptr);
  };
  Figures f;
  f.hidden = number("h", 0);
  f.layers = number("L", 0);
  f.heads = number("heads", 0);
  if (f.hidden <= 0 || f.layers <= 0 || f.heads <= 0 || text("mla") == "True") return std::nullopt;
  f.kv_heads = number("kv", f.heads);
  f.qk = f.v = number("kvch", std::floor(f.hidden / f.heads));
  f.gated = text("swiglu") == "True";
  // Megatron's defaults.
  f.width =
      number("ffn", f.gated ? std::floor(f.hidden * 8.0 / 3.0 / 64.0) * 64.0 : 4.0 * f.hidden);
  f.vocabulary = starts_with(text("vocab"), "GPTSentence") ? 256000.0
                 : starts_with(text("vocab"), "Llama2")    ? 32000.0
                                                           : 50257.0;
  f.tied = text("untie") != "True";
  f.biases = text("bias") == "yes";
  f.learned_positions = text("pos").empty() ? 1.0 : 0.0;  // the sequence's, filled in by the caller
  f.experts = number("E", 0);
  if (f.experts > 0) {
    f.taken = number("topk", 2);
    f.expert_width = number("moe_ffn", f.width);
    f.moe_layers = f.layers;
  }
  return f;
}

// The first layers come first.
void sketch_layout(const Figures& f, double checkpointed, Workload& job) {
  LayoutSketch& layout = job.layout = {};
  for (const LayerGroup& group : job.model.layers) {
    const LayerElements of = elements_of(f, group.profile);
    layout.of_layer.push_back({of.cut / job.tp + of.whole, of.experts / (job.ep * job.expert_tp)});
  }
  layout.table = local_vocabulary(job) * f.hidden;
  const auto owners =
      pipeline::stage_owners(job.schedule, whole(job.pp), whole(job.virtual_stages));
  const size_t kinds = job.model.layers.size();
  layout.stages = empty_stages(owners, kinds);
  int64_t layers = 0;
  for (const LayerGroup& group : job.model.layers) layers += whole(group.count);
  const auto stages = static_cast<int64_t>(owners.size());
  const auto stage_of = stage_of_layers(stages_of(layers, stages), layers, stages);
  size_t layer = 0;
  for (size_t kind = 0; kind < kinds; ++kind) {
    for (int64_t i = 0; i < whole(job.model.layers[kind].count); ++i, ++layer) {
      StageSketch& stage = layout.stages[static_cast<size_t>(stage_of[layer])];
      stage.layers[kind] += 1.0;
      stage.checkpointed[kind] += checkpointed;
      stage.parameters.add(layout.of_layer[kind]);
    }
  }
  const int64_t last = owners.back();
  layout.stages.front().parameters.dense += layout.table + f.learned_positions * f.hidden;
  // A tied head on another rank than the embedding is a copy of it.
  const bool has_head = !f.tied || last != owners.front();
  layout.stages.back().parameters.dense += f.hidden + (has_head ? layout.table : 0.0);

  layout.dense = {.shards = job.dp_shard * job.cp, .replicas = job.dp_replicate, .stride = job.tp};
  const double expert_stride = job.ep * job.expert_tp;
  layout.experts = {.shards = std::max(1.0, job.dp_shard * job.cp * job.tp / expert_stride),
                    .replicas = job.dp_replicate,
                    .stride = expert_stride};
}

}  // namespace am::planner
