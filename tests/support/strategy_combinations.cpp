// The strategies and options that strategy_table.h compares.
#include "am/base/text.h"
#include "am/model/family.h"
#include "support/plans.h"
#include "support/strategy_table.h"

namespace am::test {

namespace {

const std::string kOnHost = "backend = \"gloo\"\n";
Combination fsdp2(std::string name, int64_t world, const std::string& strategy = {},
                  const std::string& mesh = {}) {
  Combination combination;
  combination.name = std::move(name);
  combination.world = world;
  combination.exact = strategy.find("mp_policy") == std::string::npos &&
                      strategy.find("autocast") == std::string::npos;
  combination.toml =
      cat("[mesh]\nworld_size = ", world, "\n", mesh, "[strategy]\nname = \"fsdp2\"\n", kOnHost,
          strategy, strategy.find("mp_policy") == std::string::npos ? kFullPrecision : "");
  return combination;
}

Combination hsdp(std::string name, const std::string& strategy = {}) {
  return fsdp2(std::move(name), 4, strategy, "dp_replicate_size = 2\n");
}

Combination megatron(std::string name, int64_t world, int64_t level,
                     const std::string& strategy = {}) {
  return {std::move(name), world,
          cat("[mesh]\nworld_size = ", world, "\n[strategy]\nname = \"megatron_fsdp\"\n", kOnHost,
              "zero_dp_strategy = ", level, "\n", strategy)};
}

Combination ddp(std::string name, int64_t world, const std::string& strategy = {}) {
  Combination combination;
  combination.name = std::move(name);
  combination.world = world;
  combination.exact = strategy.find("autocast") == std::string::npos;
  combination.toml =
      cat("[mesh]\nworld_size = ", world, "\n[strategy]\nname = \"ddp\"\n", kOnHost, strategy);
  return combination;
}

Combination accumulating(Combination combination) {
  combination.accumulation = 3;
  return combination;
}

Combination tied(Combination combination) {
  combination.model = "table_tied";
  return combination;
}

Combination experts(Combination combination) {
  combination.model = "table_experts";
  return combination;
}

Combination stacked_experts(Combination combination) {
  combination.model = "table_stacked";
  return combination;
}

// Trains the family's small model in tests/data/hf, which transformers saved. AdamW divides a
// gradient by its own magnitude, so a gradient that is only a rounding error would cause a full
// update. The gradients of gpt2's key bias, and of the half of phi's key bias that RoPE does not
// rotate, are rounding errors, because softmax does not depend on a bias that all keys share. An
// eps above the rounding error keeps these updates small.
Combination of_family(const std::string& family) {
  Combination combination = fsdp2(cat("fsdp2, ", family), 2);
  combination.model = cat("hf/", family);
  combination.has_large = false;
  combination.optimizer_eps = 1e-6;
  return combination;
}

// Freezes the embedding, the first layer, and the feed-forward of the second layer.
Combination frozen(Combination combination) {
  combination.frozen = "[\"model.embed_tokens.*\", \"model.layers.0.*\", \"model.layers.1.mlp.*\"]";
  return combination;
}

Combination lora(Combination combination, const std::string& targets = "\"all-linear\"") {
  combination.lora = cat("[lora]\nrank = 4\nalpha = 8\ntarget_modules = [", targets, "]\n");
  return combination;
}

Combination dora(Combination combination) {
  combination = lora(std::move(combination));
  combination.lora += "use_dora = true\n";
  return combination;
}

// Trains adapters on base matrices in NF4. In this model, each row consists of whole NF4 blocks.
Combination on_nf4(Combination combination) {
  combination = lora(std::move(combination));
  combination.lora += "quantize_base = \"nf4\"\n";
  combination.model = "table_quantized";
  return combination;
}

Combination averaged(Combination combination) {
  combination.ema_decay = 0.9;
  return combination;
}

Combination stored_as(Combination combination, const std::string& dtype) {
  combination.storage = dtype;
  combination.exact = false;
  return combination;
}

}  // namespace

std::vector<Combination> combinations() {
  const std::string bf16 =
      "mp_policy = { param_dtype = \"bfloat16\", reduce_dtype = \"float32\", output_dtype = "
      "\"float32\" }\n";
  const std::string all_bf16 =
      "mp_policy = { param_dtype = \"bfloat16\", reduce_dtype = \"bfloat16\" }\n";
  const std::string eager = "defer_fsdp_grad_sync = false\n";
  const std::string prefetch = "enable_fsdp2_prefetch = true\n";
  const std::string full = "activation_checkpointing = \"full\"\n";
  const std::string selective = "activation_checkpointing = \"selective\"\n";
  const std::string placed = "shard_placement = { \"*_proj.weight\" = 1 }\n";
  const std::string ignored = "ignored_params = [\"*norm.weight\", \"lm_head.*\"]\n";
  const std::string checkpointed = "activation_checkpointing = true\n";
  std::vector<Combination> all = {
      fsdp2("fsdp2, one rank", 1),
      fsdp2("fsdp2", 2),
      fsdp2("fsdp2, uneven", 3),
      fsdp2("fsdp2, uneven", 4),
      tied(fsdp2("fsdp2, tied", 2)),
      tied(fsdp2("fsdp2, tied, uneven", 3)),
      fsdp2("fsdp2, never resharded", 2, "reshard_after_forward = false\n"),
      fsdp2("fsdp2, always resharded", 2, "reshard_after_forward = true\n"),
      fsdp2("fsdp2, resharded to 2", 4, "reshard_after_forward = 2\n"),
      tied(fsdp2("fsdp2, tied, resharded to 2, prefetch", 4,
                 "reshard_after_forward = 2\n" + prefetch)),
      fsdp2("fsdp2, prefetch", 2, prefetch),
      fsdp2("fsdp2, prefetch 2 and 3", 3,
            prefetch + "fsdp2_forward_prefetch_depth = 2\nfsdp2_backward_prefetch_depth = 3\n"),
      accumulating(fsdp2("fsdp2, accumulation, deferred", 2)),
      accumulating(fsdp2("fsdp2, accumulation, not deferred", 2, eager)),
      accumulating(fsdp2("fsdp2, accumulation, deferred, prefetch", 4, prefetch)),
      fsdp2("fsdp2, bf16", 2, bf16),
      fsdp2("fsdp2, bf16, reduced in bf16", 2, all_bf16),
      accumulating(fsdp2("fsdp2, bf16, accumulation, deferred", 2, bf16)),
      accumulating(fsdp2("fsdp2, bf16, accumulation, not deferred", 3, bf16 + eager)),
      stored_as(fsdp2("fsdp2, stored in bf16", 2, all_bf16), "bfloat16"),
      fsdp2("fsdp2, autocast", 2, "autocast_dtype = \"bfloat16\"\n"),
      fsdp2("fsdp2, checkpointing full", 2, full),
      fsdp2("fsdp2, checkpointing selective", 2, selective),
      fsdp2("fsdp2, checkpointing mlp", 2, "activation_checkpointing = \"mlp\"\n"),
      fsdp2("fsdp2, checkpointing every 2nd layer", 2,
            full + "activation_checkpointing_every = 2\n"),
      accumulating(tied(
          fsdp2("fsdp2, tied, checkpointing, prefetch, accumulation", 3, full + prefetch + eager))),
      fsdp2("fsdp2, offload", 2, "offload_policy = { pin_memory = false }\n"),
      fsdp2("fsdp2, placed on dimension 1", 2, placed),
      accumulating(
          fsdp2("fsdp2, placed on dimension 1, bf16, accumulation", 2, placed + bf16 + prefetch)),
      fsdp2("fsdp2, ignored", 3, ignored),
      accumulating(
          fsdp2("fsdp2, ignored, bf16, accumulation, not deferred", 2, ignored + bf16 + eager)),
      frozen(fsdp2("fsdp2, frozen", 2)),
      frozen(fsdp2("fsdp2, frozen, prefetch, checkpointing", 3, prefetch + full)),
      accumulating(frozen(fsdp2("fsdp2, frozen, bf16, accumulation", 2, bf16))),
      tied(frozen(fsdp2("fsdp2, tied, frozen, selective checkpointing", 2, selective))),
      experts(fsdp2("fsdp2, experts", 2)),
      experts(fsdp2("fsdp2, experts, uneven, checkpointing full", 3, full)),
      experts(fsdp2("fsdp2, experts, checkpointing selective", 2, selective)),
      accumulating(experts(fsdp2("fsdp2, experts, checkpointing mlp, accumulation", 2,
                                 "activation_checkpointing = \"mlp\"\n"))),
      experts(fsdp2("fsdp2, experts, bf16", 2, bf16)),
      experts(fsdp2("fsdp2, experts, autocast", 2, "autocast_dtype = \"bfloat16\"\n")),
      frozen(experts(fsdp2("fsdp2, experts, frozen", 2))),
      experts(hsdp("hsdp 2 x 2, experts, prefetch", prefetch)),
      experts(megatron("megatron_fsdp optim_grads_params, experts", 2, 3)),
      experts(ddp("ddp, experts", 2)),
      stacked_experts(fsdp2("fsdp2, stacked experts, uneven, checkpointing full", 3, full)),
      stacked_experts(
          fsdp2("fsdp2, stacked experts, autocast", 2, "autocast_dtype = \"bfloat16\"\n")),
      lora(fsdp2("fsdp2, lora", 2)),
      dora(fsdp2("fsdp2, dora", 2)),
      dora(fsdp2("fsdp2, dora, uneven, checkpointing full", 3, full)),
      on_nf4(fsdp2("fsdp2, nf4, one rank", 1)),
      on_nf4(fsdp2("fsdp2, nf4", 2)),
      on_nf4(fsdp2("fsdp2, nf4, uneven, checkpointing full", 3, full)),
      on_nf4(fsdp2("fsdp2, nf4, bf16, prefetch", 2, bf16 + prefetch)),
      on_nf4(fsdp2("fsdp2, nf4, resharded to 2", 4, "reshard_after_forward = 2\n")),
      on_nf4(fsdp2("fsdp2, nf4, placed on dimension 1", 2, placed)),
      on_nf4(fsdp2("fsdp2, nf4, offload", 2, "offload_policy = { pin_memory = false }\n")),
      on_nf4(hsdp("hsdp 2 x 2, nf4", prefetch)),
      on_nf4(megatron("megatron_fsdp optim_grads_params, nf4", 2, 3)),
      on_nf4(megatron("megatron_fsdp optim_grads_params, nf4, double buffer", 2, 3,
                      "fsdp_double_buffer = true\n")),
      averaged(fsdp2("fsdp2, averaged", 2)),
      averaged(ddp("ddp, averaged", 2)),
      averaged(megatron("megatron_fsdp optim, averaged", 2, 1)),
      lora(fsdp2("fsdp2, lora of q and v, never resharded", 2, "reshard_after_forward = false\n"),
           "\"q_proj\", \"v_proj\""),
      lora(fsdp2("fsdp2, lora of down, uneven, prefetch", 3, prefetch), "\"down_proj\""),
      lora(fsdp2("fsdp2, lora of the head", 2), "\"lm_head\", \"o_proj\""),
      lora(fsdp2("fsdp2, lora, checkpointing full", 2, full)),
      lora(fsdp2("fsdp2, lora, checkpointing selective", 2, selective)),
      lora(fsdp2("fsdp2, lora, checkpointing mlp", 2, "activation_checkpointing = \"mlp\"\n")),
      lora(fsdp2("fsdp2, lora, autocast", 2, "autocast_dtype = \"bfloat16\"\n")),
      accumulating(lora(fsdp2("fsdp2, lora, bf16, accumulation, not deferred", 2, bf16 + eager))),
      tied(lora(
          fsdp2("fsdp2, tied, lora, offload", 2, "offload_policy = { pin_memory = false }\n"))),
      experts(lora(fsdp2("fsdp2, experts, lora", 2))),
      lora(hsdp("hsdp 2 x 2, lora", prefetch)),
      lora(megatron("megatron_fsdp optim_grads_params, lora", 2, 3)),
      lora(ddp("ddp, lora", 2)),
      hsdp("hsdp 2 x 2"),
      fsdp2("replicas of 2 without shards", 2, {}, "dp_replicate_size = 2\n"),
      accumulating(fsdp2("replicas of 2 without shards, accumulation, bf16", 2, bf16,
                         "dp_replicate_size = 2\n")),
      tied(hsdp("hsdp 2 x 2, tied, checkpointing", full)),
      accumulating(hsdp("hsdp 2 x 2, accumulation, deferred")),
      accumulating(hsdp("hsdp 2 x 2, accumulation, not deferred, prefetch", eager + prefetch)),
      hsdp("hsdp 2 x 2, bf16", bf16),
      frozen(hsdp("hsdp 2 x 2, ignored, placed on dimension 1, frozen", ignored + placed)),
      megatron("megatron_fsdp no_shard", 2, 0),
      megatron("megatron_fsdp optim", 2, 1),
      megatron("megatron_fsdp optim_grads", 3, 2),
      megatron("megatron_fsdp optim_grads_params", 4, 3),
      accumulating(megatron("megatron_fsdp no_shard, accumulation", 3, 0)),
      accumulating(megatron("megatron_fsdp optim, accumulation", 4, 1)),
      accumulating(megatron("megatron_fsdp optim_grads, accumulation", 2, 2)),
      accumulating(megatron("megatron_fsdp optim_grads_params, accumulation", 3, 3)),
      megatron("megatron_fsdp optim, nothing overlapped", 2, 1,
               "overlap_grad_reduce = false\noverlap_param_gather = false\n"),
      megatron("megatron_fsdp optim, nothing overlapped, checkpointing", 2, 1,
               "overlap_grad_reduce = false\noverlap_param_gather = false\n" + checkpointed),
      megatron("megatron_fsdp optim_grads_params, double buffers", 3, 3,
               "fsdp_double_buffer = true\n"),
      stored_as(megatron("megatron_fsdp, bf16, fp32 weights and gradients", 2, 3,
                         "preserve_fp32_weights = true\ngrad_reduce_in_fp32 = true\n"),
                "bfloat16"),
      tied(megatron("megatron_fsdp, tied, checkpointing", 2, 3, checkpointed)),
      megatron("megatron_fsdp no_shard, one bucket", 2, 0, "disable_bucketing = true\n"),
      accumulating(megatron("megatron_fsdp optim_grads, one bucket, accumulation", 3, 2,
                            "disable_bucketing = true\n")),
      frozen(megatron("megatron_fsdp optim_grads_params, frozen", 2, 3)),
      ddp("ddp", 2),
      ddp("ddp, buckets of 1 MiB", 2, "bucket_cap_mb = 1\n"),
      ddp("ddp", 3),
      accumulating(ddp("ddp, accumulation", 4)),
      tied(ddp("ddp, tied", 2)),
      frozen(ddp("ddp, frozen", 2)),
      ddp("ddp, checkpointing", 2, checkpointed),
      ddp("ddp, selective", 2, selective),
      ddp("ddp, mlp", 2, "activation_checkpointing = \"mlp\"\n"),
      ddp("ddp, autocast", 2, "autocast_dtype = \"bfloat16\"\n"),
      accumulating(ddp("ddp, autocast, selective, accumulation", 3,
                       "autocast_dtype = \"bfloat16\"\n" + selective)),
  };
  for (const model::Family* family : model::families()) {
    if (family->runs) all.push_back(of_family(std::string(family->model_type)));
  }
  return all;
}

}  // namespace am::test
