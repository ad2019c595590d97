// Compares the predicted memory and time of the strategy megatron with closed forms, and with the
// predictions for published Megatron runs.
#include <catch2/catch.hpp>
#include <cmath>

#include "am/layout/stages.h"
#include "am/predict/memory/peak_memory.h"
#include "am/predict/memory/stage_memory.h"
#include "am/predict/time/measured_runs.h"
#include "am/predict/time/pipeline_time.h"
#include "am/predict/time/prediction.h"
#include "layout/plan_text.h"

namespace am::predict {
namespace {

using test::layout_of;
using test::model_of;
using test::plan_of;

// Returns the workload of a plan of the strategy megatron. `keys` are keys of [strategy]; `rest`
// begins with another section.
Workload megatron(const std::string& model, const std::string& keys, const std::string& rest) {
  const auto plan = plan_of(cat("[strategy]\nname = \"megatron\"\n", keys, "\n", rest), model);
  return workload_of(plan, model_of(model), layout_of(plan, model_of(model)));
}

const std::string kLlama = "llama-3.1-8b";
const std::string kSixteen =
    "[mesh]\nworld_size = 16\ntp_size = 2\npp_size = 2\n[train]\nseq_len = 4096\n"
    "global_batch_size = 32\n";

// Elements of Llama 3.1 8B on a rank of the first or the last stage, with tp 2 and pp 2: 16 layers,
// and the embedding or the head with the final norm.
double elements_of_llama(bool last) {
  const double hidden = 4096.0;
  const double attention = hidden * (4096.0 + 2.0 * 1024.0) + 4096.0 * hidden;
  const double mlp = 3.0 * hidden * 14336.0;
  const double layer = (attention + mlp) / 2.0 + 2.0 * hidden;
  return 16.0 * layer + 128256.0 * hidden / 2.0 + (last ? hidden : 0.0);
}

double passes_of(const std::vector<pipeline::StageDurations>& stages) {
  double sum = 0.0;
  for (const auto& stage : stages) {
    sum += stage.forward + stage.backward_input + stage.backward_weight;
  }
  return sum;
}

}  // namespace

TEST_CASE("megatron: 2 bytes a parameter, 4 a gradient, 12 a state over dp", "[megatron]") {
  for (const bool last : {false, true}) {
    const double n = elements_of_llama(last);
    const auto peak = [&](const std::string& keys, const std::string& mesh = "") {
      std::string rest = kSixteen;
      rest.insert(rest.find("tp_size"), mesh);
      return estimate_peak_memory(megatron(kLlama, keys, rest), last ? 1 : 0);
    };
    const PeakMemory level_1 = peak("");
    CHECK(level_1.parameters == Approx(2.0 * n));
    CHECK(level_1.gradients == Approx(4.0 * n));
    CHECK(level_1.optimizer == Approx(12.0 * n / 4.0));
    CHECK(level_1.unsharded == 0.0);
    CHECK(peak("zero = 0").optimizer == Approx(12.0 * n));
    const PeakMemory level_2 = peak("zero = 2");
    CHECK(level_2.parameters == Approx(2.0 * n));
    CHECK(level_2.gradients == Approx(4.0 * n / 4.0));
    CHECK(level_2.optimizer == Approx(12.0 * n / 4.0));
    CHECK(peak("", "dp_replicate_size = 2\n").optimizer == Approx(12.0 * n / 2.0));
    CHECK(peak("grad_reduce_in_fp32 = false").gradients == Approx(2.0 * n));
    const PeakMemory wide = peak("params_dtype = \"float32\"");
    CHECK(wide.parameters == Approx(4.0 * n));
    CHECK(wide.optimizer == Approx(8.0 * n / 4.0));
    const PeakMemory half = peak("params_dtype = \"float16\"\ngrad_reduce_in_fp32 = false");
    CHECK(half.gradients == Approx(2.0 * n));
    CHECK(half.optimizer == Approx(16.0 * n / 4.0));
  }
}

TEST_CASE("megatron: am-plan's memory is by formula, and am-run is not asked", "[megatron]") {
  const auto plan = plan_of("[strategy]\nname = \"megatron\"\n" + kSixteen);
  CHECK_FALSE(runs_automesh(plan));
  const auto stages = memory_of_stages(plan, model_of(kLlama), layout_of(plan, model_of(kLlama)));
  REQUIRE(stages.size() == 2);
  CHECK(stages[0].components.parameters == std::llround(2.0 * elements_of_llama(false)));
}

TEST_CASE("megatron: a published run's plan has its predicted time and memory", "[megatron]") {
  struct Row {
    const char* id;
    const char* model;
    const char* keys;
    const char* mesh;
  };
  const std::string schedule = "[pipeline]\nschedule = \"interleaved_1f1b\"\nvirtual_stages = ";
  const Row rows[] = {
      {"dgxc_benchmarking_0024", "llama-3.1-8b", "", "64 1 1 2 1 | 0 1024 8192"},
      {"dgxc_benchmarking_0053", "llama-3.1-70b", "sequence_parallel = true",
       "256 4 4 2 1 | 5 512 8192"},
      {"dgxc_benchmarking_0067", "llama-3.1-70b", "sequence_parallel = true",
       "1024 4 4 2 1 | 5 2048 8192"},
      {"dgxc_benchmarking_0090", "llama-3.1-405b", "sequence_parallel = true",
       "576 8 9 2 1 | 7 252 8192"},
      {"dgxc_benchmarking_0212", "deepseek-v3", "sequence_parallel = true\netp_size = 1",
       "256 2 4 1 64 | 0 2048 4096"},
  };
  const MeasuredRuns runs = built_in_runs();
  for (const Row& row : rows) {
    INFO(row.id);
    const auto run = std::find_if(runs.begin(), runs.end(),
                                  [&](const MeasuredRun& one) { return one.id == row.id; });
    REQUIRE(run != runs.end());
    // "world tp pp cp ep | virtual_stages global_batch_size seq_len"
    const std::vector<std::string> words = split(row.mesh, ' ');
    const bool full = run->workload.recompute == config::ActivationCheckpointing::kFull;
    const std::string keys = cat(row.keys, full ? "\nactivation_checkpointing = true" : "");
    const std::string rest =
        cat("[mesh]\nworld_size = ", words[0], "\ntp_size = ", words[1], "\npp_size = ", words[2],
            "\ncp_size = ", words[3], "\nep_size = ", words[4], "\n",
            words[6] == "0" ? "" : cat(schedule, words[6], "\n"),
            "[train]\nglobal_batch_size = ", words[7], "\nseq_len = ", words[8],
            "\n[cluster]\nimplementation = \"nemo\"\n");
    Workload ours = megatron(row.model, keys, rest);
    ours.ranks_per_node = run->workload.ranks_per_node;
    // The workload of a run whose publication states no checkpointing mode may have torchtitan's
    // selective mode. A plan of the strategy megatron cannot select this mode, so the test sets the
    // mode and the stages of `ours` to those of the run.
    if (run->workload.recompute == config::ActivationCheckpointing::kSelective) {
      ours.recompute = run->workload.recompute;
      ours.megatron.recomputed.reset();
      ours.layout.stages = run->workload.layout.stages;
    }
    const CostConstants& constants = default_calibration().constants;
    const double expected = estimate_step_time(run->workload, run->gpu, constants).seconds;
    CHECK(estimate_step_time(ours, run->gpu, constants).seconds == Approx(expected).epsilon(0.002));
    CHECK(worst_peak_memory(ours).total() ==
          Approx(worst_peak_memory(run->workload).total()).epsilon(0.002));
    CHECK(ours.world() == run->workload.world());
    CHECK(ours.micro_batches == run->workload.micro_batches);
  }
}

TEST_CASE("megatron: experts are cut over ep and etp", "[megatron]") {
  const auto of = [](const char* keys, const char* sizes) {
    return megatron("mixtral-8x7b-v0.1", cat("sequence_parallel = true\n", keys),
                    cat("[mesh]\nworld_size = 16\ntp_size = 4\n", sizes));
  };
  const double layer = 8.0 * 3.0 * 4096.0 * 14336.0;  // elements of a layer's experts
  const auto experts = [](const Workload& w) { return w.layout.of_layer.front().experts; };
  const Workload plain = of("", "ep_size = 1\n");
  CHECK(plain.expert_tp == 4.0);
  CHECK(experts(plain) == Approx(layer / 4.0));
  CHECK(plain.layout.experts.shards == 4.0);
  const Workload both = of("", "ep_size = 4\n");
  CHECK(experts(both) == Approx(layer / 16.0));
  CHECK(both.layout.experts.ranks() == 1.0);
  CHECK(both.layout.experts.stride == 16.0);
  const Workload whole = of("etp_size = 1", "ep_size = 8\n");
  CHECK(whole.expert_tp == 1.0);
  CHECK(experts(whole) == Approx(layer / 8.0));
  CHECK(whole.layout.experts.shards == 2.0);
  const Workload copies = of("etp_size = 2", "dp_replicate_size = 2\nep_size = 2\n");
  CHECK(experts(copies) == Approx(layer / 4.0));
  CHECK(copies.layout.experts.shards == 2.0);
  CHECK(copies.layout.experts.replicas == 2.0);
  // The matmul time of a rank depends little on how the experts are cut.
  Diagnostics found;
  const auto gpu = cluster::find_gpu("h100-sxm", {}, {}, found);
  const CostConstants& constants = default_calibration().constants;
  const auto products = [&](const Workload& w) {
    return estimate_step_time(w, *gpu, constants).products;
  };
  CHECK(products(of("etp_size = 1", "ep_size = 2\n")) ==
        Approx(products(of("", "ep_size = 2\n"))).epsilon(0.1));
}

TEST_CASE("megatron: every rank holds its part of an expert", "[megatron]") {
  const auto plan = plan_of(
      "[strategy]\nname = \"megatron\"\nsequence_parallel = true\netp_size = 2\n"
      "[mesh]\nworld_size = 16\ntp_size = 4\nep_size = 4\n",
      "mixtral-8x7b-v0.1");
  const layout::Layout layout = layout_of(plan, model_of("mixtral-8x7b-v0.1"));
  int64_t seen = 0;
  for (const layout::ParameterLayout& parameter : layout.parameters) {
    if (!parameter.expert_parallel()) {
      CHECK(parameter.fsdp);  // zero = 1: each rank updates a part of the parameter
      continue;
    }
    ++seen;
    REQUIRE(parameter.tp_dim.has_value());
    int64_t elements = 0;
    for (int64_t rank = 0; rank < 16; ++rank) {
      if (layout.holds(rank, parameter)) elements += numel(parameter.tp_shape(layout.mesh, rank));
    }
    CHECK(elements == 2 * numel(parameter.shape));  // 16 ranks / (ep 4 * etp 2) = 2 copies
    const int64_t first = layout.first_holder(parameter);
    CHECK(layout.holds(first, parameter));
    CHECK(first == *parameter.ep_owner * 2);
    CHECK(parameter.tp_extents(layout.mesh, first).front().offset == 0);
    CHECK(parameter.tp_extents(layout.mesh, first + 1).front().offset > 0);
  }
  CHECK(seen == 32 * 8 * 3);
}

// ---- products in FP8 and FP4 --------------------------------------------------------------------

TEST_CASE("megatron: recipes change what is saved, and add copies of the weights", "[megatron]") {
  const double hidden = 4096.0;
  const double attention = hidden * (4096.0 + 2.0 * 1024.0) + 4096.0 * hidden;
  const double layers = 16.0 * ((attention + 3.0 * hidden * 14336.0) / 2.0 + 2.0 * hidden);
  const double saved = 2.0 * 16.0 * 4096.0;  // micro-batches in flight * layers * tokens
  const auto peak = [](const std::string& recipe, const std::string& keys = "") {
    return estimate_peak_memory(megatron(kLlama, cat("fp8 = \"", recipe, "\"\n", keys), kSixteen),
                                0);
  };
  const PeakMemory wide = peak("none");
  for (const auto& [recipe, bytes] :
       {std::pair("delayed", 1.0), std::pair("tensorwise", 1.0),
        std::pair("block", 1.0 + 4.0 / 128.0), std::pair("mxfp8", 1.0 + 1.0 / 32.0),
        std::pair("nvfp4", 0.5 + 1.0 / 16.0)}) {
    INFO(recipe);
    const PeakMemory narrow = peak(recipe);
    // The outputs of both norms and the input of the down projection, which tp cuts, become
    // narrower. A narrow copy of attention's output is added.
    const double less = (2.0 - bytes) * (2.0 * hidden + 14336.0 / 2.0) - bytes * hidden / 2.0;
    CHECK(narrow.activations == Approx(wide.activations - saved * less));
    CHECK(narrow.parameters == Approx(wide.parameters + 2.0 * bytes * layers));
    CHECK(narrow.gradients == wide.gradients);
    CHECK(narrow.optimizer == wide.optimizer);
    const std::string keys = "recompute_modules = [\"layernorm\"]";
    CHECK(peak(recipe, keys).activations ==
          Approx(narrow.activations - saved * 2.0 * hidden * bytes));
    CHECK(peak(recipe, "recompute_modules = [\"mlp\"]").activations ==
          Approx(peak("none", "recompute_modules = [\"mlp\"]").activations -
                 saved * ((2.0 - bytes) * 2.0 * hidden - bytes * hidden / 2.0)));
  }
  // torchao keeps operands in 16 bits.
  const std::string fsdp2 = "[mesh]\nworld_size = 8\n[cluster]\nimplementation = \"torchtitan\"\n";
  const auto of_torchao = [&](const std::string& recipe) {
    const auto plan = plan_of(cat(fsdp2, "[strategy]\nfp8 = \"", recipe, "\"\n"), kLlama);
    const Workload workload =
        workload_of(plan, model_of(kLlama), layout_of(plan, model_of(kLlama)));
    return estimate_peak_memory(workload, 0).total();
  };
  CHECK(of_torchao("tensorwise") == of_torchao("none"));
}

TEST_CASE("megatron: recipes multiply at the rates of their formats", "[megatron]") {
  Diagnostics found;
  const auto gpu = cluster::find_gpu("b200-sxm", {}, {}, found);
  REQUIRE(gpu);
  const auto products = [&](const std::string& model, const std::string& recipe) {
    const Workload workload =
        megatron(model, cat("fp8 = \"", recipe, "\"\n"), "[mesh]\nworld_size = 8\n");
    return estimate_step_time(workload, *gpu, default_calibration().constants).products;
  };
  for (const char* model : {"llama-3.1-8b", "mixtral-8x7b-v0.1"}) {
    INFO(model);
    CHECK(products(model, "mxfp8") < 0.8 * products(model, "none"));
    CHECK(products(model, "nvfp4") < products(model, "mxfp8"));
    CHECK(products(model, "delayed") == products(model, "mxfp8"));
  }
}

// ---- fewer micro-batches than stages ------------------------------------------------------------

TEST_CASE("megatron: one micro-batch passes all stages once", "[megatron]") {
  const std::vector<pipeline::StageDurations> stages(8, {1.0, 1.0, 1.0});
  for (const int64_t count : {1, 2, 5, 8, 64}) {
    const pipeline::PipelineShape shape{
        .pp = 8, .microbatches = count, .may_stay_partly_full = true};
    CHECK_FALSE(pipeline::violated_constraint(shape));
    CHECK(PipelineOrder(shape).run(stages).seconds ==
          Approx(passes_of(stages) + 3.0 * static_cast<double>(count - 1)));
  }
  std::vector<pipeline::StageDurations> uneven = stages;
  uneven.back() = {5.0, 5.0, 5.0};
  const pipeline::PipelineShape one{.pp = 8, .microbatches = 1, .may_stay_partly_full = true};
  CHECK(PipelineOrder(one).run(uneven).seconds == Approx(passes_of(uneven)));
  CHECK(pipeline::violated_constraint({.pp = 8, .microbatches = 1}));
}

TEST_CASE("megatron: all micro-batches of a step run in one round", "[megatron]") {
  const auto shape = [](const std::string& batch) {
    const auto plan =
        plan_of(cat("[mesh]\nworld_size = 16\npp_size = 8\n[strategy]\nname = \"megatron\"\n",
                    "[train]\nglobal_batch_size = ", batch, "\n"));
    const Workload workload =
        workload_of(plan, model_of(kLlama), layout_of(plan, model_of(kLlama)));
    CHECK(workload.rounds == 1.0);
    CHECK(layout::pipeline_shape(plan, 8, 2).microbatches ==
          static_cast<int64_t>(workload.micro_batches));
    return pipeline_shape(workload);
  };
  CHECK(shape("64").microbatches == 32);
  CHECK(shape("4").microbatches == 2);
  CHECK(shape("4").may_stay_partly_full);
  // A rank has at most as many micro-batches in flight as a step has.
  const std::string mesh = "[mesh]\nworld_size = 16\npp_size = 8\n[train]\nglobal_batch_size = ";
  const auto activations = [&](const char* batch) {
    return estimate_peak_memory(megatron(kLlama, "", mesh + batch), 0).activations;
  };
  CHECK(activations("16") == Approx(4.0 * activations("4")));
  CHECK(activations("64") == Approx(activations("16")));
}

// ---- time of data parallelism -------------------------------------------------------------------

TEST_CASE("megatron: levels, overlap and instances change the messages of dp", "[megatron]") {
  Diagnostics found;
  const auto gpu = cluster::find_gpu("h100-sxm", {}, {}, found);
  REQUIRE(gpu);
  const auto time = [&](const char* keys, const char* mesh = "") {
    return estimate_step_time(megatron(kLlama, keys,
                                       cat("[mesh]\nworld_size = 64\ntp_size = 2\n", mesh,
                                           "[train]\nglobal_batch_size = 128\n")),
                              *gpu, default_calibration().constants);
  };
  const StepTime base = time("");
  const Workload one = megatron(kLlama, "", "[mesh]\nworld_size = 64\ntp_size = 2\n");
  const double n = one.layout.parameters_of(0).total();
  // Gradients are reduced in float32, and parameters gathered in bfloat16.
  CHECK(base.bytes.dp == Approx(n * (4.0 + 2.0) * 31.0 / 32.0));
  CHECK(time("zero = 0").bytes.dp == Approx(n * (4.0 + 4.0) * 31.0 / 32.0));
  CHECK(time("zero = 2").bytes.dp == Approx(n * (4.0 * 4.0 + 2.0) * 31.0 / 32.0));
  CHECK(time("grad_reduce_in_fp32 = false").bytes.dp == Approx(n * (2.0 + 2.0) * 31.0 / 32.0));
  CHECK(time("", "dp_replicate_size = 4\n").bytes.dp ==
        Approx(n * (6.0 * 7.0 / 8.0 + 2.0 * 4.0 / 8.0 * 3.0 / 4.0)));
  CHECK(time("overlap_param_gather = false").dp > base.dp);
  CHECK(time("overlap_param_gather = false\noverlap_grad_reduce = false").dp >
        time("overlap_param_gather = false").dp);
}

TEST_CASE("megatron: tp cuts Mamba 2 by heads and groups", "[megatron]") {
  const std::string name = "nemotron-h-56b";
  const auto plan =
      plan_of("[strategy]\nname = \"megatron\"\n[mesh]\nworld_size = 8\ntp_size = 8\n", name);
  const layout::Layout layout = layout_of(plan, model_of(name));
  const auto local = [&](const std::string& name_of_parameter) {
    const auto found = std::find_if(layout.parameters.begin(), layout.parameters.end(),
                                    [&](const auto& one) { return one.name == name_of_parameter; });
    REQUIRE(found != layout.parameters.end());
    return found->tp_shape(layout.mesh, /*rank=*/3);
  };
  // 256 heads of width 64, 8 groups with a state of 256: on each rank 32 heads and one group.
  const int64_t inner = 256 * 64 / 8, states = 256;
  CHECK(local("backbone.layers.0.mixer.in_proj.weight") ==
        Shape{2 * inner + 2 * states + 32, 8192});
  CHECK(local("backbone.layers.0.mixer.conv1d.weight") == Shape{inner + 2 * states, 1, 4});
  CHECK(local("backbone.layers.0.mixer.A_log") == Shape{32});
  CHECK(local("backbone.layers.0.mixer.norm.weight") == Shape{inner});
  CHECK(local("backbone.layers.0.mixer.out_proj.weight") == Shape{8192, inner});
  // A rank of eight has an eighth of all parameters but the norms of hidden states.
  const Workload workload = workload_of(plan, model_of(name), layout);
  const double elements = workload.layout.parameters_of(0).total();
  CHECK(elements == Approx(56.32e9 / 8.0).epsilon(0.001));
}

// ---- recomputation ------------------------------------------------------------------------------

TEST_CASE("megatron: recomputation by number of layers", "[megatron]") {
  const auto peak = [](const std::string& keys) {
    return estimate_peak_memory(megatron(kLlama, keys, kSixteen), 0);
  };
  const Workload plain = megatron(kLlama, "", kSixteen);
  const double tokens = 4096.0;
  const double whole = layer_activation_bytes(plain, plain.model.layers.front().profile);
  const double input = 4096.0 * 2.0;
  const double flying = 2.0;  // micro-batches in flight on the first of two stages
  CHECK(peak("").activations == Approx(tokens * flying * 16.0 * whole));
  const PeakMemory full = peak("activation_checkpointing = true");
  CHECK(full.activations == Approx(tokens * flying * 16.0 * input));
  CHECK(full.recomputed == Approx(tokens * (whole - input)));
  CHECK(peak("recompute_num_layers = 1").activations == full.activations);
  const PeakMemory fours = peak("recompute_num_layers = 4");
  CHECK(fours.activations == Approx(tokens * flying * 4.0 * input));
  CHECK(fours.recomputed == Approx(tokens * (4.0 * whole - input)));
  const PeakMemory block = peak("recompute_num_layers = 4\nrecompute_method = \"block\"");
  CHECK(block.activations == Approx(tokens * flying * (12.0 * whole + 4.0 * input)));
  CHECK(block.recomputed == full.recomputed);
}

TEST_CASE("megatron: recomputation by module", "[megatron]") {
  Diagnostics found;
  const auto gpu = cluster::find_gpu("h100-sxm", {}, {}, found);
  REQUIRE(gpu);
  const auto of = [&](const std::string& model, const std::string& modules) {
    const std::string keys = modules.empty() ? "" : cat("recompute_modules = [\"", modules, "\"]");
    const Workload workload = megatron(model, keys, "[mesh]\nworld_size = 8\n");
    return std::pair(estimate_peak_memory(workload, 0).activations,
                     estimate_step_time(workload, *gpu, default_calibration().constants).seconds);
  };
  const auto llama = of(kLlama, "");
  CHECK(of(kLlama, "core_attn").first == llama.first);  // fused attention saves no scores
  CHECK(of(kLlama, "core_attn").second > llama.second);
  const double tokens = 2048.0 * 32.0;
  CHECK(of(kLlama, "layernorm").first == Approx(llama.first - tokens * 2.0 * 2.0 * 4096.0));
  CHECK(of(kLlama, "mlp").first == Approx(llama.first - tokens * 6.0 * 14336.0));
  CHECK(of(kLlama, "mlp").second > of(kLlama, "layernorm").second);
  CHECK(of(kLlama, "mlp_act").first == Approx(llama.first - tokens * 2.0 * 14336.0));
  CHECK(of(kLlama, "mlp_act").second > llama.second);
  CHECK(of(kLlama, "mlp_act").second < of(kLlama, "mlp").second);
  const auto moe = of("deepseek-v2-lite", "");
  for (const char* module : {"moe", "moe_act", "shared_experts", "mla_up_proj"}) {
    INFO(module);
    CHECK(of("deepseek-v2-lite", module).first < moe.first);
    CHECK(of("deepseek-v2-lite", module).second > moe.second);
  }
  CHECK(of("deepseek-v2-lite", "moe").first < of("deepseek-v2-lite", "moe_act").first);
}

TEST_CASE("megatron: activations in host memory", "[megatron]") {
  Diagnostics found;
  const auto gpu = cluster::find_gpu("h100-sxm", {}, {}, found);
  REQUIRE(gpu);
  const auto of = [&](double fraction, const std::string& keys = "") {
    return megatron(kLlama, cat("activation_offload_fraction = ", fraction, "\n", keys), kSixteen);
  };
  const auto peak = [&](double fraction) { return estimate_peak_memory(of(fraction), 0); };
  const PeakMemory without = peak(0.0);
  CHECK(without.host == 0.0);
  // Of the first stage's 16 layers and two micro-batches in flight, two layers of one micro-batch
  // stay on the device.
  const double staying = without.activations / 16.0;
  CHECK(peak(0.5).host == Approx(0.5 * without.activations));
  CHECK(peak(0.5).activations == Approx(0.5 * without.activations + staying));
  CHECK(peak(1.0).host == Approx(without.activations));
  CHECK(peak(1.0).activations == Approx(staying));
  // Two layers' activations are never more than the offloaded ones.
  CHECK(peak(0.01).activations == Approx(without.activations));
  const auto seconds = [&](const Workload& workload) {
    return estimate_step_time(workload, *gpu, default_calibration().constants);
  };
  const StepTime free = seconds(of(0.0));
  // A forward takes longer than the copy of a tenth of its activations, and not as long as the copy
  // of all.
  CHECK(seconds(of(0.1)).seconds == free.seconds);
  const StepTime all = seconds(of(1.0));
  CHECK(all.offload > 0.0);
  CHECK(free.offload == 0.0);
  CHECK(all.seconds > free.seconds + all.offload * 0.99);
  // Checkpointed layers keep less, so that less is copied.
  CHECK(seconds(of(1.0, "activation_checkpointing = true\n")).offload == 0.0);
  const StageSummary stage = of(0.0).layout.stages.front();
  CHECK(stage_activation_bytes(of(0.0), stage) * 2.0 == Approx(without.activations));
}

}  // namespace am::predict
