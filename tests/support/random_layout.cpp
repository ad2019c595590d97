#include "support/random_layout.h"

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "am/base/text.h"
#include "am/config/schedule_names.h"
#include "am/layout/runs.h"
#include "am/model/family.h"
#include "am/rules/check.h"
#include "support/plans.h"

namespace am::test {

namespace {

constexpr int64_t kMostDrawnRanks = 8;

class Draw {
 public:
  explicit Draw(std::mt19937_64& random) : random_(random) {}

  // Returns a number in [0, end). Does not use the distributions of std, because they differ
  // between standard libraries.
  int64_t below(int64_t end) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(end));
  }
  bool once_in(int64_t times) { return below(times) == 0; }
  template <typename T>
  T any(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<int64_t>(values.size()))];
  }

 private:
  std::mt19937_64& random_;
};

void repeat_layers(std::vector<bool>& layers, int64_t count) {
  const std::vector<bool> few = layers;
  if (few.empty()) return;
  layers.clear();
  for (int64_t layer = 0; layer < count; ++layer) {
    layers.push_back(few[static_cast<size_t>(layer) % few.size()]);
  }
}

// Draws sizes with few divisors, and other keys of a config. Adds a description of each changed key
// to `name`.
void draw_sizes(Draw& draw, model::ModelConfig& config, std::string& name) {
  const auto change = [&](int64_t once_in, const char* what, int64_t& size, int64_t value) {
    if (!draw.once_in(once_in)) return;
    size = value;
    name += cat(", ", what, " ", value);
  };
  change(3, "vocabulary", config.vocab_size, config.vocab_size - draw.below(20));
  change(3, "width", config.intermediate_size, config.intermediate_size - draw.below(12));
  if (config.sliding_window) change(2, "window", *config.sliding_window, 1 + draw.below(9));
  // GPT-2 keeps its number of heads, because all heads together must be as wide as the hidden
  // state.
  if (config.num_key_value_heads > 1 && !config.mla && config.model_type != "gpt2") {
    const int64_t groups = draw.any<int64_t>({1, 1, 2});
    const int64_t heads = draw.any<int64_t>({2, 3, 6, 8});
    if (heads % groups == 0 && draw.once_in(3)) {
      config.num_attention_heads = heads;
      config.num_key_value_heads = heads / groups;
      name += cat(", heads ", heads, " and ", heads / groups);
    }
  }
  if (draw.once_in(5)) {
    config.tie_word_embeddings = !config.tie_word_embeddings;
    name += config.tie_word_embeddings ? ", tied" : ", not tied";
  }
  if (!config.moe) return;
  model::MoeConfig& moe = *config.moe;
  change(2, "experts", moe.experts, moe.groups * draw.any<int64_t>({3, 4, 5, 5, 5, 6, 7, 7, 7, 8}));
  change(2, "top", moe.experts_per_token, 1 + draw.below(3));
  change(3, "expert width", moe.expert_width, moe.expert_width - draw.below(8));
}

model::ModelConfig draw_model(Draw& draw, std::string& name) {
  const auto* family = draw.any({"deepseek_v2",
                                 "deepseek_v3",
                                 "falcon",
                                 "falcon-7b",
                                 "gemma",
                                 "gemma2",
                                 "gemma3_text",
                                 "gpt2",
                                 "gpt_oss",
                                 "llama",
                                 "llama-bias",
                                 "mistral",
                                 "mixtral",
                                 "olmo2",
                                 "phi",
                                 "phi-tied",
                                 "phi3",
                                 "phi3-longrope",
                                 "qwen2",
                                 "qwen2_moe",
                                 "qwen3",
                                 "qwen3-yarn",
                                 "qwen3_moe",
                                 "smollm3",
                                 "olmo3",
                                 "olmoe",
                                 "seed_oss",
                                 "exaone4",
                                 "glm4_moe",
                                 "dots1",
                                 "minimax_m2",
                                 "starcoder2",
                                 "stablelm",
                                 "stablelm-parallel",
                                 "gpt_neox",
                                 "helium",
                                 "ernie4_5",
                                 "glm",
                                 "glm4",
                                 "cohere",
                                 "cohere2",
                                 "arcee",
                                 "nemotron",
                                 "granite",
                                 "hunyuan_v1_dense",
                                 "opt",
                                 "bloom",
                                 "mpt",
                                 "granitemoe",
                                 "ernie4_5_moe",
                                 "hunyuan_v1_moe"});
  Diagnostics found;
  model::ModelConfig config = model::load_config(data_path(cat("hf/", family)), found).value();
  config.num_hidden_layers = 2 + draw.below(6);
  repeat_layers(config.window_layers, config.num_hidden_layers);
  repeat_layers(config.rotated_layers, config.num_hidden_layers);
  if (config.moe) repeat_layers(config.moe->layers, config.num_hidden_layers);
  name = cat(family, ", ", config.num_hidden_layers, " layers");
  draw_sizes(draw, config, name);
  return config;
}

// The drawn lines of the plan, and a description of them for the layout's name.
class DrawnText {
 public:
  void line(const std::string& text) { plan_ += text + "\n"; }
  void say(const std::string& what) { name_ += ", " + what; }
  const std::string& plan() const { return plan_; }
  const std::string& name() const { return name_; }

 private:
  std::string plan_, name_;
};

struct DrawnAxes {
  int64_t pp = 1, replicas = 1, shards = 1, cp = 1, tp = 1, ep = 1;

  int64_t world() const { return pp * replicas * shards * cp * tp; }
};

// Draws one long axis: dp_shard or dp_replicate over 5, 7 or 8 ranks, tp over all key-value heads,
// or ep over all experts. If draw_axes() draws several axes, long axes are rare.
DrawnAxes draw_long_axis(Draw& draw, const model::ModelConfig& config) {
  DrawnAxes axes;
  const int64_t ranks = draw.any<int64_t>({5, 7, 8});
  const int64_t kind = draw.below(config.moe ? 5 : 3);
  if (kind == 0) {
    axes.shards = ranks;
  } else if (kind == 1) {
    axes.replicas = ranks;
  } else if (kind == 2) {
    axes.tp = std::max<int64_t>(config.num_key_value_heads, 2);
  } else {
    axes.shards = axes.ep = config.moe->experts;
  }
  return axes;
}

DrawnAxes draw_axes(Draw& draw, const std::string& strategy, const model::ModelConfig& config) {
  DrawnAxes axes;
  if (strategy == "fsdp2" && draw.once_in(5)) {
    axes = draw_long_axis(draw, config);
    if (axes.world() > 1 && axes.world() <= kMostDrawnRanks) return axes;
  }
  do {
    axes.shards = draw.any<int64_t>({1, 1, 2, 2, 3, 4, 5, 7});
    axes.cp = strategy == "ddp" ? 1 : draw.any<int64_t>({1, 1, 1, 2, 2, 3, 4});
    axes.tp = strategy == "fsdp2" ? draw.any<int64_t>({1, 1, 2, 2, 3, 4, 8}) : 1;
    axes.pp = strategy == "fsdp2" ? draw.any<int64_t>({1, 1, 2, 2, 3, 4}) : 1;
    axes.replicas = strategy == "fsdp2" ? draw.any<int64_t>({1, 1, 1, 2, 3}) : 1;
    axes.ep = draw.any<int64_t>({1, 2, 2, 3, 4, 5, 7, 8});
  } while (axes.world() == 1 || axes.world() > kMostDrawnRanks);
  return axes;
}

void write_mesh(const DrawnAxes& axes, DrawnText& text) {
  text.line("[mesh]");
  text.line(cat("world_size = ", axes.world()));
  const auto axis = [&](const char* key, const char* name, int64_t size) {
    if (size == 1) return;
    text.say(cat(name, " ", size));
    if (*key != '\0') text.line(cat(key, " = ", size));
  };
  axis("pp_size", "pp", axes.pp);
  axis("dp_replicate_size", "replicas", axes.replicas);
  axis("", "shards", axes.shards);
  axis("cp_size", "cp", axes.cp);
  axis("tp_size", "tp", axes.tp);
  axis("ep_size", "ep", axes.ep);
}

void write_strategy(Draw& draw, const std::string& strategy, const DrawnAxes& axes,
                    DrawnText& text) {
  text.line(cat("[strategy]\nname = \"", strategy, "\"\nbackend = \"gloo\""));
  text.say(strategy);
  const auto key = [&](bool given, const std::string& line) {
    if (!given) return;
    text.line(line);
    text.say(line);
  };
  const auto* mode = draw.any({"full", "selective", "mlp"});
  if (strategy == "ddp") {
    return key(draw.once_in(3), cat("activation_checkpointing = \"", mode, "\""));
  }
  if (strategy == "megatron_fsdp") {
    key(true, cat("zero_dp_strategy = ", draw.below(4)));
    key(draw.once_in(3), "activation_checkpointing = true");
    return key(draw.once_in(3), "fsdp_double_buffer = true");
  }
  key(axes.tp > 1 && draw.once_in(2), "sequence_parallel = true");
  key(draw.once_in(2), cat("activation_checkpointing = \"", mode, "\""));
  key(draw.once_in(4), "activation_checkpointing_every = 2");
  key(draw.once_in(4), "defer_fsdp_grad_sync = false");
  key(draw.once_in(4), cat("reshard_after_forward = ", draw.any({"true", "false"})));
  key(draw.once_in(5), "enable_fsdp2_prefetch = true");
  key(draw.once_in(8), "offload_policy = { pin_memory = false }");
  const auto* ignored = draw.any({"*norm*", "*.bias", "lm_head.*", "*embed*", "*down_proj*"});
  key(draw.once_in(6), cat("ignored_params = [\"", ignored, "\"]"));
  const auto* placed = draw.any({"*_proj.weight", "*down_proj*", "*embed*"});
  key(draw.once_in(6), cat("shard_placement = { \"", placed, "\" = 1 }"));
}

std::string drawn_plan(Draw& draw, const model::ModelConfig& config, std::string& name) {
  DrawnText text;
  const std::string strategy =
      draw.any({"fsdp2", "fsdp2", "fsdp2", "fsdp2", "ddp", "megatron_fsdp"});
  const DrawnAxes axes = draw_axes(draw, strategy, config);
  write_mesh(axes, text);
  write_strategy(draw, strategy, axes, text);
  int64_t micro_batches = 1 + draw.below(3);
  if (axes.pp > 1) {
    const int64_t each = axes.pp * draw.any<int64_t>({1, 1, 2});
    const auto schedule = config::kScheduleNames[static_cast<size_t>(
        draw.below(static_cast<int64_t>(config::kScheduleNames.size())))];
    const int64_t stages =
        schedule == "gpipe" || schedule == "1f1b" ? 1 : draw.any<int64_t>({2, 2, 3});
    text.line(cat("[pipeline]\nschedule = \"", schedule, "\"\nmicrobatches = ", each,
                  "\nvirtual_stages = ", stages, "\nbalance = \"",
                  each % 2 == 0 ? "layers" : "cost", "\""));
    micro_batches = each * draw.any<int64_t>({1, 1, 2});
    text.say(cat(schedule, " of ", each, stages > 2 ? ", 3 stages a rank" : ""));
  }
  if (axes.cp > 1) {
    const auto* method = draw.any({"ring", "ring", "all_gather", "ulysses"});
    text.line(cat("[context]\nmethod = \"", method, "\""));
    text.say(method);
  }
  if (config.moe && draw.once_in(3)) {
    text.line("[experts]\nbalancing = \"sequence\"\ncoefficient = 0.01");
    text.say("balanced sequences");
  }
  if (draw.once_in(5)) {
    const auto* targets = draw.any({"all-linear", "q_proj", "v_proj\", \"o_proj", "down_proj"});
    const auto* more = draw.any(
        {"dropout = 0", "dropout = 0.3", "use_dora = true", "modules_to_save = [\"norm\"]"});
    text.line(cat("[lora]\nrank = 3\ntarget_modules = [\"", targets, "\"]\n", more));
    text.say(cat("lora of \"", targets, "\" with ", more));
  }
  if (draw.once_in(6)) {
    text.line("[optimizer]\nname = \"muon\"");
    text.say("muon");
  }
  const int64_t micro_batch = 1 + draw.below(2);
  const int64_t length = draw.any<int64_t>({16, 16, 24, 23, 5, 7, 13});
  text.say(cat(micro_batches, " x ", micro_batch, " of ", length));
  text.line(
      cat("[train]\nseq_len = ", length, "\nmicro_batch_size = ", micro_batch,
          "\nglobal_batch_size = ", micro_batches * micro_batch * axes.replicas * axes.shards));
  if (draw.once_in(4)) {
    text.line("label_smoothing = 0.1\nz_loss = 0.01\nneftune_noise_alpha = 5");
    text.say("smoothed");
  }
  name += ":" + text.name().substr(1);
  return text.plan();
}

}  // namespace

RandomLayout draw_layout(std::mt19937_64& random) {
  Draw draw(random);
  for (int64_t drawn = 1;; ++drawn) {
    RandomLayout layout;
    layout.drawn = drawn;
    layout.model = draw_model(draw, layout.name);
    const std::string text =
        "[model]\npath = \"none\"\n" + drawn_plan(draw, layout.model, layout.name);
    Diagnostics found;
    auto plan = config::parse_plan(text, "random.toml", {}, found);
    if (!plan) continue;
    const auto checked = rules::check_model(*plan, layout.model, found);
    if (!found.ok() || !checked.mesh || !checked.layout) continue;
    if (!layout::limits_of_plan(*plan).empty()) continue;
    if (!layout::limits_of_model(layout.model).empty()) continue;
    layout.plan = *std::move(plan);
    return layout;
  }
}

}  // namespace am::test
