#include "am/job/scaled_down_job.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "am/config/batch.h"
#include "am/layout/quantization.h"
#include "am/layout/replicas.h"
#include "am/layout/stages.h"
#include "am/model/layer_profile.h"
#include "am/pipeline/shape.h"
#include "am/rules/check.h"

namespace am::job {
namespace {

constexpr int64_t kHeadWidth = 16;
constexpr int64_t kMostRanks = 32;

// Returns `size` if it is at most 3; for larger sizes, 2 if `size` is even and 3 if it is odd.
int64_t few(int64_t size) { return size <= 3 ? size : size % 2 == 0 ? 2 : 3; }

class Shrinking {
 public:
  Shrinking(const config::Plan& plan, const model::ModelConfig& model, const mesh::MeshSizes& sizes)
      : plan_(plan), model_(model), sizes_(sizes) {
    proxy_.plan = without_files(plan);
    proxy_.model = model;
  }

  ScaledDownJob run() {
    shrink_mesh();
    shrink_heads();
    shrink_widths();
    shrink_experts();
    shrink_layers();
    shrink_sequence();
    shrink_batch();
    return std::move(proxy_);
  }

 private:
  void change(const char* key, int64_t& value, int64_t to) {
    if (value == to) return;
    proxy_.changes.push_back({key, value, to});
    value = to;
  }

  void shrink_mesh() {
    mesh::MeshSizes& mesh = proxy_.mesh;
    mesh = {.pp = few(sizes_.pp),
            .dp_replicate = few(sizes_.dp_replicate),
            .dp_shard = few(sizes_.dp_shard),
            .cp = few(sizes_.cp),
            .tp = few(sizes_.tp)};
    if (mesh.world_size() > kMostRanks) {  // reduces all axes to at most 2 ranks
      for (int64_t* axis : {&mesh.pp, &mesh.dp_replicate, &mesh.dp_shard, &mesh.cp, &mesh.tp}) {
        *axis = std::min<int64_t>(*axis, 2);
      }
    }
    // A custom schedule (a CSV file) is valid only for the number of pipeline ranks for which it
    // was written.
    if (plan_.pipeline.csv) mesh.pp = sizes_.pp;
    const int64_t stage = mesh.world_size() / mesh.pp;
    mesh.ep = std::gcd(few(sizes_.ep), stage);
    if (mesh.ep == 1 && sizes_.ep > 1) mesh.ep = stage % 2 == 0 ? 2 : stage;
    config::MeshSection& section = proxy_.plan.mesh;
    section.dp_size = 0;
    change("mesh.pp_size", section.pp_size, mesh.pp);
    // If the strategy shards no parameters, all data-parallel ranks are replicas, and the value 1
    // of dp_replicate_size is always valid.
    const bool shards = layout::shards_parameters(plan_.strategy);
    change("mesh.dp_replicate_size", section.dp_replicate_size, shards ? mesh.dp_replicate : 1);
    change("mesh.cp_size", section.cp_size, mesh.cp);
    change("mesh.tp_size", section.tp_size, mesh.tp);
    change("mesh.ep_size", section.ep_size, mesh.ep);
    section.world_size = sizes_.world_size();
    change("mesh.world_size", section.world_size, mesh.world_size());
  }

  // Reduces the numbers of heads. The number of query heads stays a multiple of the number of key
  // heads. If the job's tp divides its number of key heads, the proxy's tp divides the proxy's
  // number of key heads. This also holds for tp * cp instead of tp.
  void shrink_heads() {
    const int64_t keys = model_.num_key_value_heads;
    const int64_t each = std::max<int64_t>(1, model_.num_attention_heads / keys);
    const int64_t cut = proxy_.mesh.tp * proxy_.mesh.cp;
    int64_t fewer = std::min(keys, proxy_.mesh.tp);
    if (keys % sizes_.tp != 0) fewer = 1;
    if (keys % (sizes_.tp * sizes_.cp) == 0) fewer = std::min(keys, std::max<int64_t>(2, cut));
    int64_t of_a_key = std::min<int64_t>(each, 4);
    while (fewer * of_a_key % cut != 0) ++of_a_key;
    model::ModelConfig& to = proxy_.model;
    change("num_key_value_heads", to.num_key_value_heads, each == 1 ? fewer * of_a_key : fewer);
    change("num_attention_heads", to.num_attention_heads, fewer * of_a_key);
  }

  // Returns the width to which a matrix shrinks: `least`, or the block size of NF4 if the base
  // weights are quantized, because the rows must then consist of whole blocks.
  int64_t width(int64_t least) const {
    return plan_.lora.quantize_base == "none" ? least : layout::kNf4Block;
  }

  void shrink_widths() {
    model::ModelConfig& to = proxy_.model;
    change("head_dim", to.head_dim, std::min(model_.head_dim, width(kHeadWidth)));
    change("hidden_size", to.hidden_size,
           std::min(model_.hidden_size, to.num_attention_heads * to.head_dim));
    change("intermediate_size", to.intermediate_size,
           std::min<int64_t>(model_.intermediate_size, width(24) * proxy_.mesh.tp));
    const int64_t words = 48 * proxy_.mesh.tp;
    change("vocab_size", to.vocab_size,
           std::min(model_.vocab_size, model_.vocab_size % sizes_.tp == 0 ? words : words + 1));
    if (to.padding_id && *to.padding_id >= to.vocab_size) to.padding_id = 0;
    if (to.mla) {
      model::MlaConfig& mla = *to.mla;
      change("q_lora_rank", mla.q_lora_rank, std::min<int64_t>(mla.q_lora_rank, width(12)));
      change("kv_lora_rank", mla.kv_lora_rank, std::min<int64_t>(mla.kv_lora_rank, width(12)));
      change("qk_nope_head_dim", mla.qk_nope_head_dim, std::min<int64_t>(mla.qk_nope_head_dim, 8));
      change("qk_rope_head_dim", mla.qk_rope_head_dim, std::min<int64_t>(mla.qk_rope_head_dim, 8));
      change("v_head_dim", mla.v_head_dim, std::min<int64_t>(mla.v_head_dim, width(8)));
      to.head_dim = std::min(to.head_dim, mla.qk_rope_head_dim);
    }
    shrink_rope(to.rope);
    if (to.local_rope) shrink_rope(*to.local_rope);
  }

  // Truncates the factor lists of longrope to the proxy's number of rotary pairs: a list has one
  // factor per pair.
  void shrink_rope(model::RopeConfig& rope) const {
    const double rotated = rope.rotated_part * static_cast<double>(proxy_.model.head_dim);
    const auto pairs = static_cast<size_t>(rotated) / 2;
    for (std::vector<double>* factors : {&rope.short_factor, &rope.long_factor}) {
      if (factors->size() > pairs) factors->resize(pairs);
    }
  }

  void shrink_experts() {
    if (!proxy_.model.moe) return;
    model::MoeConfig& moe = *proxy_.model.moe;
    const int64_t groups = std::min<int64_t>(moe.groups, 4);
    change("n_group", moe.groups, groups);
    change("topk_group", moe.topk_groups,
           std::min(moe.topk_groups, std::max<int64_t>(1, groups / 2)));
    int64_t experts = 4 * proxy_.mesh.ep;
    experts = std::max(experts, 2 * groups);
    experts += (proxy_.mesh.ep - experts % proxy_.mesh.ep) % proxy_.mesh.ep;
    while (experts % groups != 0) experts += proxy_.mesh.ep;
    change("experts", moe.experts, std::min(moe.experts, experts));
    const int64_t reached = moe.experts / moe.groups * moe.topk_groups;
    change("num_experts_per_tok", moe.experts_per_token,
           std::min(moe.experts_per_token, std::min<int64_t>(3, reached)));
    change("moe_intermediate_size", moe.expert_width,
           std::min<int64_t>(moe.expert_width, width(16)));
    change("shared experts' width", moe.shared_width,
           std::min<int64_t>(moe.shared_width, width(16) * proxy_.mesh.tp));
  }

  // Reduces the number of layers. The proxy has at least one layer of each kind that the job's
  // model has, and at least one layer per stage. If the job's stages cannot have equal numbers of
  // layers, neither can the proxy's stages.
  void shrink_layers() {
    model::ModelConfig& to = proxy_.model;
    const auto stages_of = [&](int64_t pp) {
      return pp > 1 ? layout::pipeline_shape(plan_.pipeline, pp).stages() : 1;
    };
    const int64_t stages = stages_of(proxy_.mesh.pp);
    int64_t layers = std::max<int64_t>(2, stages);
    for (const model::LayerKind& kind : model::layer_kinds(model_)) {
      layers = std::max<int64_t>(layers, kind.layers.front() + 1);
    }
    const bool uneven = model_.num_hidden_layers % stages_of(sizes_.pp) != 0;
    if (stages > 1 && uneven && layers % stages == 0) ++layers;
    if (stages > 1 && !uneven) layers = (layers + stages - 1) / stages * stages;
    layers = std::min(layers, model_.num_hidden_layers);
    change("num_hidden_layers", to.num_hidden_layers, layers);
    const auto count = static_cast<size_t>(layers);
    for (std::vector<bool>* each : {&to.rotated_layers, &to.window_layers}) {
      if (each->size() > count) each->resize(count);
    }
    if (to.moe && to.moe->layers.size() > count) to.moe->layers.resize(count);
    to.window_first_layer = std::min(to.window_first_layer, layers);
    to.mtp_layers = 0;
    proxy_.plan.pipeline.split_points.clear();
    if (auto* fsdp2 = std::get_if<config::FSDP2Config>(&proxy_.plan.strategy)) {
      fsdp2->activation_checkpointing_every =
          std::min(fsdp2->activation_checkpointing_every, layers);
      if (auto& reshard = fsdp2->reshard_after_forward) {
        if (auto* size = std::get_if<int64_t>(&*reshard)) {
          *size = std::min(*size, proxy_.mesh.dp_shard * proxy_.mesh.cp);
        }
      }
    }
  }

  // Returns a number m: if m divides the length of a sequence, cp and sequence parallelism cut the
  // sequence into equal parts without padding.
  int64_t sequence_multiple(const mesh::MeshSizes& sizes) const {
    return (sizes.cp > 1 ? 2 * sizes.cp : 1) *
           (config::sequence_parallel(plan_.strategy) ? sizes.tp : 1);
  }

  // Reduces the sequence length. If cp or sequence parallelism pads the job's sequences, the
  // proxy's sequences are padded too.
  void shrink_sequence() {
    const int64_t before = plan_.train.seq_len;
    const bool padded = before % sequence_multiple(sizes_) != 0;
    int64_t length = std::min<int64_t>(before, 48);
    while ((length % sequence_multiple(proxy_.mesh) != 0) != padded && length > 1) --length;
    change("train.seq_len", proxy_.plan.train.seq_len, length);
    model::ModelConfig& to = proxy_.model;
    change("max_position_embeddings", to.max_position_embeddings,
           std::min<int64_t>(model_.max_position_embeddings, 64));
    if (!to.sliding_window) return;
    const bool reaches = *model_.sliding_window < before;
    int64_t window = *to.sliding_window;
    change("sliding_window", window, std::min<int64_t>(window, reaches ? 20 : 64));
    to.sliding_window = window;
  }

  // Reduces the batch. Without a pipeline, the proxy has two micro-batches per step if the job has
  // several. With a pipeline, the proxy has two rounds (runs of the schedule) per step if the job
  // has several.
  void shrink_batch() {
    const config::BatchShape before = config::batch_shape(plan_, sizes_.dp());
    config::TrainSection& train = proxy_.plan.train;
    change("train.micro_batch_size", train.micro_batch_size,
           std::min<int64_t>(train.micro_batch_size, 2));
    int64_t micro_batches = std::min<int64_t>(before.micro_batches, 2);
    if (proxy_.mesh.pp > 1) {
      const int64_t in_round = legal_round(before.in_round);
      const int64_t rounds = std::min<int64_t>(before.micro_batches / before.in_round, 2);
      change("pipeline.microbatches", proxy_.plan.pipeline.microbatches, in_round);
      micro_batches = rounds * in_round;
    }
    change("train.global_batch_size", train.global_batch_size,
           micro_batches * train.micro_batch_size * proxy_.mesh.dp());
  }

  // Returns the proxy's number of micro-batches per round: the first number, from the number of
  // stages plus pp upwards, that the schedule accepts, but at most `before`, the job's number.
  int64_t legal_round(int64_t before) const {
    pipeline::PipelineShape shape = layout::pipeline_shape(proxy_.plan.pipeline, proxy_.mesh.pp);
    const int64_t wanted = std::min(before, shape.stages() + proxy_.mesh.pp);
    for (int64_t count = wanted; count <= before; ++count) {
      shape.microbatches = count;
      if (!pipeline::violated_constraint(shape)) return count;
    }
    return before;
  }

  const config::Plan& plan_;
  const model::ModelConfig& model_;
  const mesh::MeshSizes& sizes_;
  ScaledDownJob proxy_;
};

}  // namespace

config::Plan without_files(config::Plan plan) {
  if (!plan.max_steps_apply()) {
    plan.train.max_steps =
        std::max(plan.train.max_steps, plan.scheduler.warmup_steps + plan.scheduler.decay_steps);
  }
  plan.train.epochs = 0;
  plan.train.max_tokens = 0;
  plan.train.max_time.reset();
  plan.model.weights = "none";
  plan.lora.weights.clear();
  plan.data = {.kind = plan.data.has_examples() ? "synthetic_chat" : "synthetic",
               .reset_position_ids = plan.data.reset_position_ids,
               .eod_token = plan.data.eod_token,
               .packing = plan.data.packing};
  plan.validation = {};
  plan.checkpoint = {};
  plan.checkpoint.resume = "none";
  plan.metrics = {};
  return plan;
}

std::optional<ScaledDownJob> scaled_down(const config::Plan& plan, const model::ModelConfig& model,
                                         const mesh::MeshSizes& sizes, Diagnostics& found) {
  ScaledDownJob proxy = Shrinking(plan, model, sizes).run();
  Diagnostics own;
  const rules::CheckedPlan checked = rules::check_model(proxy.plan, proxy.model, own);
  if (!own.ok() || !checked.layout) {
    for (const Diagnostic& each : own.items()) {
      Diagnostic of_proxy = each;
      of_proxy.message = "the scaled-down job: " + each.message;
      found.add(std::move(of_proxy));
    }
    return std::nullopt;
  }
  return proxy;
}

}  // namespace am::job
