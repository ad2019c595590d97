#include "support/layout_table.h"

#include <cstdlib>
#include <ctime>
#include <utility>

#include "am/base/random.h"
#include "am/base/text.h"
#include "support/plans.h"

namespace am::test {

namespace {

struct Axes {
  int64_t pp = 1, dp = 1, tp = 1, cp = 1;
  int64_t ep = 1;               // ranks over which experts are distributed; divides dp * cp * tp
  int64_t replicas = 1;         // value of dp_replicate_size
  std::string method = "ring";  // value of method in [context]
};

struct Schedule {
  std::string name = "1f1b";
  int64_t virtual_stages = 1;
  int64_t microbatches = 4;  // micro-batches per run of the schedule
  int64_t rounds = 1;
};

// Returns a combination for the axes and the schedule. `strategy` contains more lines of
// [strategy]. All dtypes are float32, unless these lines set mp_policy.
Combination layout(std::string name, const Axes& axes, const Schedule& schedule,
                   const std::string& strategy = {}) {
  Combination combination;
  combination.name = std::move(name);
  combination.world = axes.pp * axes.dp * axes.tp * axes.cp;
  combination.has_formula = axes.tp * axes.cp == 1;
  combination.measured_in_turn = axes.ep > 1;
  combination.dp = axes.dp;
  combination.model = "table_deep";
  combination.accumulation = schedule.microbatches * schedule.rounds;
  const bool has_policy = strategy.find("mp_policy") != std::string::npos;
  combination.exact = !has_policy && strategy.find("autocast") == std::string::npos;
  combination.toml = cat("[mesh]\nworld_size = ", combination.world, "\npp_size = ", axes.pp,
                         "\ntp_size = ", axes.tp, "\ncp_size = ", axes.cp, "\nep_size = ", axes.ep,
                         "\ndp_replicate_size = ", axes.replicas,
                         "\n[strategy]\nname = \"fsdp2\"\nbackend = \"gloo\"\n", strategy,
                         has_policy ? "" : kFullPrecision);
  if (axes.cp > 1) {
    combination.toml += cat("[context]\nmethod = \"", axes.method, "\"\n");
  }
  if (axes.pp > 1) {
    combination.toml += cat("[pipeline]\nschedule = \"", schedule.name,
                            "\"\nvirtual_stages = ", schedule.virtual_stages,
                            "\nmicrobatches = ", schedule.microbatches, "\n");
  }
  return combination;
}

// Returns a combination with ep or cp in addition to dp. `strategy` is the whole [strategy] section
// except the backend; mp_policy is not added. `accumulation`: number of micro-batches per step.
Combination over_dp(std::string name, const Axes& axes, const std::string& strategy,
                    int64_t accumulation = 1) {
  Combination combination = layout(std::move(name), axes, {.microbatches = accumulation});
  combination.toml = cat("[mesh]\nworld_size = ", combination.world, "\ncp_size = ", axes.cp,
                         "\nep_size = ", axes.ep, "\n[strategy]\nbackend = \"gloo\"\n", strategy);
  return combination;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
}

// Returns a combination of the strategy megatron, which runs all micro-batches of a step in one run
// of the schedule. `strategy` contains more lines of [strategy]. All dtypes are float32, unless
// these lines set params_dtype.
Combination megatron(std::string name, const Axes& axes, const Schedule& schedule,
                     const std::string& strategy) {
  Combination combination = layout("megatron, " + std::move(name), axes, schedule, strategy);
  combination.exact = strategy.find("params_dtype") == std::string::npos;
  replace(combination.toml, "\"fsdp2\"", "\"megatron\"");
  replace(combination.toml, kFullPrecision,
          combination.exact ? "params_dtype = \"float32\"\n" : "");
  replace(combination.toml, cat("microbatches = ", schedule.microbatches, "\n"), "");
  return combination;
}

Combination of_model(const std::string& model, Combination combination) {
  combination.model = model;
  return combination;
}

// Shortens the sequences by one position. cp then does not divide their length, and the sequences
// are padded. Padding must not affect the loss.
Combination padded(Combination combination) {
  combination.shorter = 1;
  return combination;
}

// Uses a model in which an expert may receive no tokens. The gradient of this expert's row in the
// router is then only a rounding error, which needs a larger optimizer eps: see of_family in
// strategy_combinations.cpp.
Combination routed(Combination combination) {
  combination.optimizer_eps = 1e-6;
  return of_model("table_routed", std::move(combination));
}

Combination balanced(const std::string& how, Combination combination) {
  combination.experts = cat("[experts]\nbalancing = \"", how, "\"\n");
  return combination;
}

// Routes all tokens to the two experts of one rank. This rank then receives more rows than it
// computes in one pass.
Combination skewed(Combination combination) {
  combination.skewed = true;
  return of_model("table_shared", std::move(combination));
}

Combination adapted(Combination combination, double dropout = 0.0) {
  combination.lora = cat("[lora]\nrank = 4\nalpha = 8\ndropout = ", dropout,
                         "\ntarget_modules = [\"all-linear\"]\n");
  return combination;
}

Combination magnified(Combination combination) {
  combination = adapted(std::move(combination));
  combination.lora += "use_dora = true\n";
  return combination;
}

// Trains LoRA adapters on base matrices in NF4.
Combination quantized(Combination combination) {
  const bool experts = combination.toml.find("ep_size = 1") == std::string::npos;
  combination = adapted(std::move(combination));
  combination.lora += "quantize_base = \"nf4\"\n";
  combination.model = experts ? "table_quantized_experts" : "table_quantized";
  if (experts) combination.optimizer_eps = 1e-6;  // see routed()
  return combination;
}

// Trains with label smoothing and z-loss, which change the gradients but not the reported losses,
// and with NEFTune's noise on the embeddings.
Combination smoothed(Combination combination) {
  combination.train = "label_smoothing = 0.1\nz_loss = 0.01\nneftune_noise_alpha = 3.0\n";
  return combination;
}

}  // namespace

std::vector<Combination> layouts() {
  const std::string full = "activation_checkpointing = \"full\"\n";
  const std::string selective = "activation_checkpointing = \"selective\"\n";
  const std::string bf16 =
      "mp_policy = { param_dtype = \"bfloat16\", reduce_dtype = \"float32\", output_dtype = "
      "\"float32\" }\n";
  const std::string sp = "sequence_parallel = true\n";
  const Schedule one{.microbatches = 1};
  const Axes two{.pp = 2}, four{.pp = 4}, square{.pp = 2, .dp = 2};
  const Schedule interleaved{"interleaved_1f1b", 2}, zero_bubble{"interleaved_zero_bubble", 2},
      zbv{"zbv_zero_bubble", 2}, dual{"dual_pipe_v", 2}, looped{"looped_bfs", 2}, gpipe{"gpipe"};
  return {
      layout("pp 2, gpipe", two, gpipe),
      layout("pp 2, 1f1b", two, {}),
      layout("pp 2, looped_bfs", two, looped),
      layout("pp 2, interleaved_1f1b", two, interleaved),
      layout("pp 2, interleaved_zero_bubble", two, zero_bubble),
      layout("pp 2, zbv_zero_bubble", two, zbv),
      layout("pp 2, dual_pipe_v", two, dual),
      // Rank 1 holds the first and the last stage. Only these stages split backward into input and
      // weight gradients.
      layout("pp 2, a schedule from a file", two, {"schedules/own.csv", 2}),
      layout("pp 4, 1f1b", four, {.microbatches = 6}),
      layout("pp 4, interleaved_1f1b", four, interleaved),
      layout("pp 2, 1f1b, two rounds", two, {.microbatches = 2, .rounds = 2}),
      layout("pp 2, 1f1b, checkpointing full", two, {}, full),
      layout("pp 2, gpipe, checkpointing selective", two, gpipe, selective),
      layout("pp 2, zbv_zero_bubble, checkpointing full", two, zbv, full),
      layout("pp 2, 1f1b, bf16", two, {}, bf16),
      layout("pp 2, gpipe, autocast", two, gpipe, "autocast_dtype = \"bfloat16\"\n"),
      of_model("table_tied", layout("pp 2, 1f1b, tied, uneven", two, {})),
      of_model("table_experts", layout("pp 2, 1f1b, experts, uneven", two, {})),
      layout("pp 2 x fsdp 2, gpipe", square, gpipe),
      layout("pp 2 x fsdp 2, 1f1b", square, {}),
      layout("pp 2 x fsdp 2, 1f1b, not deferred", square, {}, "defer_fsdp_grad_sync = false\n"),
      layout("pp 2 x fsdp 2, zbv_zero_bubble, not deferred, bf16", square, zbv,
             "defer_fsdp_grad_sync = false\n" + bf16),
      layout("pp 2 x fsdp 2, 1f1b, two rounds, bf16", square, {.microbatches = 2, .rounds = 2},
             bf16),
      layout("pp 2 x fsdp 2, looped_bfs", square, looped),
      layout("pp 2 x fsdp 2, interleaved_1f1b", square, interleaved),
      layout("pp 2 x fsdp 2, interleaved_zero_bubble", square, zero_bubble),
      layout("pp 2 x fsdp 2, zbv_zero_bubble", square, zbv),
      layout("pp 2 x fsdp 2, dual_pipe_v", square, dual),
      of_model("table_tied", layout("pp 2 x fsdp 2, 1f1b, tied", square, {})),
      of_model("table_experts", layout("pp 2 x fsdp 2, 1f1b, experts", square, {})),
      layout("pp 2 x hsdp 2 x 2, 1f1b", {.pp = 2, .dp = 4, .replicas = 2}, {.microbatches = 3}),

      layout("tp 2", {.tp = 2}, one),
      layout("tp 2, SP", {.tp = 2}, one, sp),
      layout("tp 2 x fsdp 2, SP, accumulation", {.dp = 2, .tp = 2}, {.microbatches = 3}, sp),
      layout("tp 2 x hsdp 2 x 2, SP", {.dp = 4, .tp = 2, .replicas = 2}, one, sp),
      layout("tp 2, SP, checkpointing full", {.tp = 2}, one, sp + full),
      layout("tp 2, bf16", {.tp = 2}, one, bf16),

      layout("cp 2, ring", {.cp = 2}, one),
      layout("cp 2, all_gather", {.cp = 2, .method = "all_gather"}, one),
      layout("cp 2, ulysses", {.cp = 2, .method = "ulysses"}, one),
      layout("cp 4, ring", {.cp = 4}, one),
      layout("cp 4, all_gather", {.cp = 4, .method = "all_gather"}, one),
      layout("cp 2 x fsdp 2, ring, accumulation", {.dp = 2, .cp = 2}, {.microbatches = 2}),
      layout("cp 2 x hsdp 2 x 2, ring", {.dp = 4, .cp = 2, .replicas = 2}, one),
      over_dp("cp 2 x megatron_fsdp 2, optim", {.dp = 2, .cp = 2},
              "name = \"megatron_fsdp\"\nzero_dp_strategy = 1\n"),
      over_dp("cp 2 x megatron_fsdp 2, no_shard", {.dp = 2, .cp = 2},
              "name = \"megatron_fsdp\"\nzero_dp_strategy = 0\n", 2),
      layout("cp 2, ring, checkpointing full", {.cp = 2}, one, full),
      layout("cp 2, ulysses, checkpointing selective", {.cp = 2, .method = "ulysses"}, one,
             selective),
      layout("cp 2, ring, bf16", {.cp = 2}, one, bf16),
      of_model("table_experts", layout("cp 2, ring, experts", {.cp = 2}, one)),

      layout("tp 2 x pp 2, 1f1b", {.pp = 2, .tp = 2}, {}),
      layout("tp 2 x pp 2, zbv_zero_bubble, SP", {.pp = 2, .tp = 2}, zbv, sp),
      layout("tp 2 x pp 2, dual_pipe_v", {.pp = 2, .tp = 2}, dual),
      layout("tp 2 x pp 2, 1f1b, SP, checkpointing full", {.pp = 2, .tp = 2}, {}, sp + full),
      of_model("table_tied", layout("tp 2 x pp 2, 1f1b, tied", {.pp = 2, .tp = 2}, {})),
      layout("tp 2 x pp 2 x fsdp 2, 1f1b, SP", {.pp = 2, .dp = 2, .tp = 2}, {}, sp),
      layout("tp 2 x cp 2, ring", {.tp = 2, .cp = 2}, one),
      layout("tp 2 x cp 2, ulysses, SP", {.tp = 2, .cp = 2, .method = "ulysses"}, one, sp),
      layout("cp 2 x pp 2, ring, 1f1b", {.pp = 2, .cp = 2}, {}),
      layout("cp 2 x pp 2, ring, interleaved_zero_bubble", {.pp = 2, .cp = 2}, zero_bubble),
      layout("cp 2 x pp 2, ulysses, gpipe", {.pp = 2, .cp = 2, .method = "ulysses"}, gpipe),
      of_model("table_experts", layout("cp 2 x pp 2, ring, experts", {.pp = 2, .cp = 2}, {})),
      layout("tp 2 x cp 2 x pp 2, ring, 1f1b, SP", {.pp = 2, .tp = 2, .cp = 2}, {}, sp),
      layout("fsdp 2 x tp 2 x cp 2, all_gather",
             {.dp = 2, .tp = 2, .cp = 2, .method = "all_gather"}, one),

      routed(layout("ep 2", {.dp = 2, .ep = 2}, one)),
      routed(layout("ep 4", {.dp = 4, .ep = 4}, one)),
      routed(layout("ep 2 x fsdp 2", {.dp = 4, .ep = 2}, one)),
      routed(layout("ep 2 x hsdp 2 x 2", {.dp = 4, .ep = 2, .replicas = 2}, one)),
      routed(layout("ep 2 x fsdp 2, accumulation", {.dp = 4, .ep = 2}, {.microbatches = 2})),
      routed(layout("ep 2 x fsdp 2, accumulation, not deferred", {.dp = 4, .ep = 2},
                    {.microbatches = 2}, "defer_fsdp_grad_sync = false\n")),
      routed(layout("ep 2, checkpointing full", {.dp = 2, .ep = 2}, one, full)),
      routed(layout("ep 2 x fsdp 2, checkpointing selective", {.dp = 4, .ep = 2}, one, selective)),
      routed(layout("ep 2 x fsdp 2, bf16", {.dp = 4, .ep = 2}, one, bf16)),
      routed(layout("ep 2 x fsdp 2, checkpointing mlp", {.dp = 4, .ep = 2}, one,
                    "activation_checkpointing = \"mlp\"\n")),
      routed(layout("ep 2 x fsdp 2, autocast", {.dp = 4, .ep = 2}, one,
                    "autocast_dtype = \"bfloat16\"\n")),
      adapted(
          of_model("table_shared", layout("ep 2 x fsdp 2, shared, lora", {.dp = 4, .ep = 2}, one))),
      skewed(layout("ep 4, all tokens on one rank", {.dp = 4, .ep = 4}, one)),
      skewed(layout("ep 4, all tokens on one rank, checkpointing full", {.dp = 4, .ep = 4}, one,
                    full)),
      of_model("table_experts",
               layout("ep 2, shared experts, a dense layer", {.dp = 2, .ep = 2}, one)),
      of_model("table_stacked", layout("ep 2 x fsdp 2, stacked", {.dp = 4, .ep = 2}, one)),
      of_model("table_stacked",
               layout("ep 2, stacked, checkpointing full", {.dp = 2, .ep = 2}, one, full)),
      balanced("bias", of_model("table_shared", layout("ep 2 x fsdp 2, latent, shared, bias",
                                                       {.dp = 4, .ep = 2}, one))),
      balanced("sequence",
               of_model("table_shared", layout("ep 2 over cp 2, latent, shared, sequence",
                                               {.cp = 2, .ep = 2}, one))),
      balanced("sequence", routed(layout("ep 4 over dp 2 x tp 2, SP, sequence",
                                         {.dp = 2, .tp = 2, .ep = 4}, one, sp))),
      routed(over_dp("ep 2 x ddp 2", {.dp = 4, .ep = 2}, "name = \"ddp\"\n")),
      routed(over_dp("ep 2, ddp, accumulation", {.dp = 2, .ep = 2}, "name = \"ddp\"\n", 3)),
      routed(over_dp("ep 2 x megatron_fsdp 2, optim_grads_params", {.dp = 4, .ep = 2},
                     "name = \"megatron_fsdp\"\nzero_dp_strategy = 3\n")),
      routed(
          over_dp("ep 2 x megatron_fsdp 2, optim_grads_params, double buffers", {.dp = 4, .ep = 2},
                  "name = \"megatron_fsdp\"\nzero_dp_strategy = 3\nfsdp_double_buffer = true\n")),
      routed(over_dp("ep 2 x megatron_fsdp 2, optim, one bucket, accumulation", {.dp = 4, .ep = 2},
                     "name = \"megatron_fsdp\"\nzero_dp_strategy = 1\ndisable_bucketing = true\n",
                     2)),
      routed(over_dp("ep 2 x megatron_fsdp 2, no_shard", {.dp = 4, .ep = 2},
                     "name = \"megatron_fsdp\"\nzero_dp_strategy = 0\n")),
      routed(layout("ep 2 x fsdp 2, resharded to 2, prefetch", {.dp = 8, .ep = 2}, one,
                    "reshard_after_forward = 2\nenable_fsdp2_prefetch = true\n")),
      routed(layout("ep 2 x fsdp 2, experts' downs and norms ignored", {.dp = 4, .ep = 2}, one,
                    "ignored_params = [\"*.w2.weight\", \"*norm.weight\"]\n")),
      padded(
          balanced("sequence", of_model("table_shared", layout("ep 2 over cp 2, padded, sequence",
                                                               {.cp = 2, .ep = 2}, one)))),
      padded(balanced(
          "bias",
          of_model("table_shared", layout("ep 4 over dp 2 x cp 2, padded, bias, checkpointing full",
                                          {.dp = 2, .cp = 2, .ep = 4}, one, full)))),
      routed(layout("ep 2 over tp 2", {.tp = 2, .ep = 2}, one)),
      routed(layout("ep 2 over tp 2, fsdp 2, SP, checkpointing full", {.dp = 2, .tp = 2, .ep = 2},
                    one, sp + full)),
      routed(layout("ep 2 over cp 2, ring", {.cp = 2, .ep = 2}, one)),
      routed(layout("ep 4 over dp 2 x cp 2, ring", {.dp = 2, .cp = 2, .ep = 4}, one)),
      routed(layout("ep 2 x pp 2, 1f1b", {.pp = 2, .dp = 2, .ep = 2}, {})),
      routed(layout("ep 2 x pp 2, interleaved_1f1b", {.pp = 2, .dp = 2, .ep = 2}, interleaved)),
      routed(layout("ep 2 x pp 2, zbv_zero_bubble", {.pp = 2, .dp = 2, .ep = 2}, zbv)),
      routed(layout("ep 2 over tp 2, pp 2 x fsdp 2, 1f1b, SP", {.pp = 2, .dp = 2, .tp = 2, .ep = 2},
                    {.microbatches = 2}, sp)),
      routed(layout("ep 2 over cp 2, pp 2, ring, 1f1b", {.pp = 2, .cp = 2, .ep = 2},
                    {.microbatches = 2})),

      megatron("zero 0, pp 2 x dp 2", square, {}, "zero = 0\n"),
      megatron("zero 1, pp 2 x dp 2", square, {}, "zero = 1\n"),
      megatron("zero 2, pp 2 x dp 2, interleaved_1f1b", square, interleaved, "zero = 2\n"),
      megatron("zero 2, dp 4, accumulation", {.dp = 4}, {.microbatches = 3}, "zero = 2\n"),
      megatron("zero 1, dp 4, nothing overlapped", {.dp = 4}, one,
               "zero = 1\noverlap_grad_reduce = false\noverlap_param_gather = false\n"),
      megatron("zero 1, pp 4, fewer micro-batches than stages", four, {.microbatches = 2},
               "zero = 1\n"),
      megatron("zero 1, two instances of dp 2, accumulation", {.dp = 4, .replicas = 2},
               {.microbatches = 2}, "zero = 1\n"),
      megatron("zero 1, tp 2 x dp 2, SP, bf16", {.dp = 2, .tp = 2}, one,
               sp + "params_dtype = \"bfloat16\"\n"),
      megatron("zero 1, tp 2 x pp 2 x dp 2, SP, checkpointing full", {.pp = 2, .dp = 2, .tp = 2},
               {}, sp + full),
      megatron("zero 1, tp 2 x cp 2 x pp 2, ring, SP", {.pp = 2, .tp = 2, .cp = 2}, {}, sp),
      of_model("table_tied", megatron("zero 1, pp 2 x dp 2, tied", square, {}, "zero = 1\n")),
      routed(megatron("zero 0, ep 2 x dp 2", {.dp = 4, .ep = 2}, one, "zero = 0\n")),
      routed(megatron("zero 1, ep 2 x dp 2", {.dp = 4, .ep = 2}, one, "zero = 1\n")),
      routed(megatron("zero 1, ep 2 over tp 2, pp 2 x dp 2, SP",
                      {.pp = 2, .dp = 2, .tp = 2, .ep = 2}, {.microbatches = 2},
                      sp + "etp_size = 1\n")),
      routed(megatron("zero 1, tp 2 x dp 2, SP, whole experts", {.dp = 2, .tp = 2}, one,
                      sp + "etp_size = 1\n")),

      adapted(layout("pp 2, gpipe, lora with dropout, checkpointing full", two, gpipe, full), 0.25),
      adapted(layout("tp 2 x pp 2, zbv_zero_bubble, lora, SP", {.pp = 2, .tp = 2}, zbv, sp)),
      adapted(layout("pp 2 x fsdp 2, 1f1b, lora with dropout", square, {}), 0.25),
      adapted(layout("cp 2 x fsdp 2, ring, lora with dropout", {.dp = 2, .cp = 2}, one), 0.25),
      padded(adapted(layout("tp 2 x cp 2, all_gather, lora with dropout, SP, padded",
                            {.tp = 2, .cp = 2, .method = "all_gather"}, one, sp + full),
                     0.25)),
      adapted(layout("cp 2, ring, lora", {.cp = 2}, one)),
      magnified(layout("tp 2 x fsdp 2, dora, SP", {.dp = 2, .tp = 2}, one, sp)),
      magnified(layout("tp 2, dora", {.tp = 2}, one)),
      magnified(layout("pp 2, 1f1b, dora", two, {})),
      quantized(layout("tp 2, nf4", {.tp = 2}, one)),
      quantized(layout("tp 2 x fsdp 2, nf4, SP", {.dp = 2, .tp = 2}, one, sp)),
      quantized(layout("pp 2 x fsdp 2, 1f1b, nf4", square, {})),
      quantized(
          layout("cp 2 x fsdp 2, ring, nf4, checkpointing full", {.dp = 2, .cp = 2}, one, full)),
      quantized(layout("ep 2 x fsdp 2, nf4", {.dp = 4, .ep = 2}, one)),
      smoothed(layout("fsdp 2, smoothed", {.dp = 2}, one)),
      smoothed(layout("tp 2 x pp 2, zbv_zero_bubble, smoothed, SP", {.pp = 2, .tp = 2}, zbv, sp)),
      padded(smoothed(layout("tp 2 x cp 2, all_gather, smoothed, padded",
                             {.tp = 2, .cp = 2, .method = "all_gather"}, one))),
  };
}

std::vector<Combination> third_of_layouts() {
  const char* chosen = std::getenv("AM_MATRIX_THIRD");
  constexpr std::time_t kDay = 24 * 60 * 60;
  const int64_t third = (chosen != nullptr ? std::atoi(chosen) : std::time(nullptr) / kDay) % 3;
  std::vector<Combination> all = layouts();
  std::erase_if(all, [third](const Combination& each) {
    return static_cast<int64_t>(hash_name(each.name) % 3) != third;
  });
  return all;
}

}  // namespace am::test
