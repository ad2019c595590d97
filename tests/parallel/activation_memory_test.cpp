// The activation bytes that are alive after a forward pass differ by at most 2% from the planner's
// prediction.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <mutex>

#include "am/base/text.h"
#include "am/predict/memory/layer_activations.h"
#include "support/live_bytes.h"
#include "support/plans.h"

namespace am {
namespace {

int64_t unsharded_bytes(parallel::ParallelModel& model) {
  int64_t bytes = 0;
  for (const auto& group : model.data_parallel().groups()) bytes += group->unsharded_bytes();
  return bytes;
}

// Returns the bytes that are alive after a forward pass, without logits and gathered parameters.
int64_t measure(const config::Plan& plan, const runtime::World& world) {
  test::RankModel rank(plan, world);
  const at::Tensor ids = at::zeros({plan.train.micro_batch_size, plan.train.seq_len}, at::kLong);
  // The first forward creates the RoPE tables, which the model keeps.
  {
    const at::NoGradGuard no_grad;
    rank.model->forward(ids);
  }
  for (auto& group : rank.model->data_parallel().groups()) group->reshard();
  const test::LiveBytes live;
  const at::Tensor logits = rank.model->forward(ids);
  return live.count() - static_cast<int64_t>(logits.storage().nbytes()) -
         unsharded_bytes(*rank.model);
}

double predicted_bytes(const config::Plan& plan, int64_t ranks) {
  const bool adapters = plan.lora.rank > 0;
  Diagnostics found;
  const auto config = model::load_config(plan.resolve(plan.model.path), found);
  const auto sizes = layout::resolve_mesh(plan, ranks, found);
  const auto layout = layout::build_layout(plan, *config, *sizes, found);
  const auto context = predict::activation_context(plan, *layout);
  double bytes = predict::final_norm_activations(context, *config, /*head_trains=*/!adapters);
  for (const auto& unit : layout->units) {
    if (unit.layer < 0) continue;
    const bool first_trained = adapters && unit.layer == 0;
    bytes += predict::LayerActivations(context, *layout, 0, unit, first_trained).kept();
  }
  const auto words = static_cast<double>(config->vocab_size / sizes->tp);
  bytes += predict::capped_logits_bytes(context, *config, words);
  // The prediction for the embedding includes the ids, 8 bytes per token. measure() does not count
  // the ids, because they exist before the forward pass.
  bytes += predict::embedding_activations(context, *config) - 8.0 * context.tokens;
  const double head = static_cast<double>(config->vocab_size * config->hidden_size);
  return bytes + predict::cast_weights_bytes(context, head);
}

// Returns the keys of [strategy] for a precision: "float32", "bfloat16" or "autocast".
std::string precision_keys(const std::string& precision) {
  const std::string params = precision == "bfloat16" ? "bfloat16" : "float32";
  return cat("mp_policy = { param_dtype = \"", params, "\", reduce_dtype = \"", params,
             "\", output_dtype = \"none\" }\n",
             precision == "autocast" ? "autocast_dtype = \"bfloat16\"\n" : "");
}

}  // namespace

TEST_CASE("activations are predicted as they are kept") {
  const std::string family = GENERATE(from_range(test::reference_models(
      {"llama-bias", "phi-tied", "phi3-longrope", "qwen3-yarn", "qwen3_moe-dense"})));
  const std::string mode = GENERATE("false", "true", "\"selective\"", "\"mlp\"");
  const std::string precision = GENERATE("float32", "bfloat16", "autocast");
  const config::Plan plan = test::parse(
      cat("[model]\npath = \"hf/", family,
          "\"\n[train]\nseq_len = 64\nmicro_batch_size = 8\n[mesh]\nworld_size = 1\n[strategy]\n",
          precision_keys(precision), "activation_checkpointing = ", mode, "\n"));
  int64_t measured = 0;
  runtime::run_ranks(1, [&](const runtime::World& world) { measured = measure(plan, world); });
  INFO(family << ", " << precision << ", checkpointing " << mode);
  CHECK(static_cast<double>(measured) == Approx(predicted_bytes(plan, 1)).epsilon(0.02));
}

TEST_CASE("what a tp rank keeps until backward is predicted") {
  const std::string family = GENERATE(
      "llama", "qwen3", "phi", "phi3", "gpt2", "falcon", "falcon-7b", "olmo2", "gemma2",
      "deepseek_v2-dense", "deepseek_v3-dense", "mixtral", "qwen2_moe", "deepseek_v3", "gpt_oss");
  const std::string parallel = GENERATE("false", "true");
  const std::string mode = GENERATE("false", "true", "\"selective\"");
  const config::Plan plan = test::parse(
      cat("[model]\npath = \"hf/", family, "\"\n[train]\nseq_len = 64\nmicro_batch_size = 8\n",
          "[mesh]\nworld_size = 2\ntp_size = 2\n[strategy]\nsequence_parallel = ", parallel, "\n",
          test::kFullPrecision, "activation_checkpointing = ", mode, "\n"));
  int64_t measured = 0;
  runtime::run_ranks(2, [&](const runtime::World& world) {
    const int64_t mine = measure(plan, world);
    if (world.rank() == 0) measured = mine;
  });
  INFO(family << ", sequence parallel " << parallel << ", checkpointing " << mode);
  CHECK(static_cast<double>(measured) == Approx(predicted_bytes(plan, 2)).epsilon(0.02));
}

TEST_CASE("activations beside adapters are predicted as they are kept") {
  const auto [family, targets] = GENERATE(table<std::string, std::string>({
      {"llama", "\"all-linear\""},
      {"llama", "\"q_proj\", \"v_proj\""},
      {"qwen3", "\"o_proj\""},
      {"llama", "\"down_proj\""},
      {"llama", "\"gate_proj\", \"k_proj\""},
      {"gemma2", "\"all-linear\""},
      {"phi", "\"all-linear\""},
      {"phi3", "\"all-linear\""},
      {"gpt2", "\"c_attn\", \"c_proj\""},
      {"deepseek_v2-dense", "\"*.self_attn.*\""},
      {"qwen2_moe", "\"q_proj\", \"shared_expert.up_proj\""},
      {"qwen2_moe", "\"all-linear\""},
  }));
  const std::string mode = GENERATE("false", "true", "\"selective\"", "\"mlp\"");
  const std::string precision = GENERATE("float32", "bfloat16", "autocast");
  const config::Plan plan = test::parse(
      cat("[model]\npath = \"hf/", family,
          "\"\n[train]\nseq_len = 64\nmicro_batch_size = 8\n[lora]\nrank = 4\ntarget_modules = [",
          targets, "]\n[mesh]\nworld_size = 1\n[strategy]\n", precision_keys(precision),
          "activation_checkpointing = ", mode, "\n"));
  int64_t measured = 0;
  runtime::run_ranks(1, [&](const runtime::World& world) { measured = measure(plan, world); });
  INFO(family << ", " << targets << ", " << precision << ", checkpointing " << mode);
  CHECK(static_cast<double>(measured) == Approx(predicted_bytes(plan, 1)).epsilon(0.02));
}

}  // namespace am
