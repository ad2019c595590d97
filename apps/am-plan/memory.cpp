// am-plan memory PLAN: prints the predicted peak memory of a rank, and whether the peak fits into
// the GPU. The rank is that of --rank or, by default, the rank with the highest peak.
#include <algorithm>
#include <memory>
#include <utility>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/config/backend.h"
#include "am/config/batch.h"
#include "am/config/optimizer.h"
#include "am/layout/backend_choice.h"
#include "am/layout/precision.h"
#include "am/layout/units.h"
#include "am/predict/memory/stage_memory.h"
#include "am/predict/time/evidence.h"
#include "am/predict/time/prediction.h"
#include "am/term/bars.h"
#include "am/term/table.h"
#include "am/term/wrap.h"
#include "commands.h"
#include "plan_input.h"
#include "text.h"

namespace am_plan {
namespace {

using am::predict::Fit;
using am::predict::MemoryComponents;
using am::predict::RankMemory;

// A component of a rank's memory, as a row of the printed table.
struct Component {
  const char* name;
  int64_t bytes;
  std::string why;
};

// Returns as text how a rank stores parameters, for example "sharded over 8, cut over tp 2". Under
// the strategy megatron, the memory formulas for other frameworks assume that only tp and pp divide
// the parameters: Megatron keeps copies along dp even if its distributed optimizer shards the
// states. am-run stores only the shards that the rank's optimizer updates.
std::string sharding_text(const PlanInput& input) {
  const am::mesh::MeshLayout& mesh = input.layout.mesh;
  const auto& all = input.layout.parameters;
  const bool whole = std::holds_alternative<am::config::MegatronConfig>(input.plan.strategy) &&
                     !am::predict::runs_automesh(input.plan);
  const bool fsdp =
      !whole && std::any_of(all.begin(), all.end(), [](const auto& each) { return each.fsdp; });
  const bool ignores = fsdp && !input.layout.ignored().empty();
  std::vector<std::string> parts;
  if (fsdp) {
    parts.push_back(am::cat("sharded over ", mesh.group_size("dp_shard_cp"),
                            ignores ? " except ignored_params" : ""));
  }
  if (mesh.sizes().tp > 1) parts.push_back(am::cat("cut over tp ", mesh.sizes().tp));
  if (mesh.sizes().pp > 1) parts.push_back(am::cat("1 of ", mesh.sizes().pp, " stages"));
  return parts.empty() ? "whole" : am::join(parts, ", ");
}

// Returns the optimizer's states as text, for example "AdamW: two moments".
std::string states_text(const am::config::OptimizerSection& optimizer) {
  std::string text;
  if (optimizer.name == "muon") {
    text = "Muon: momentum of the layers' matrices; AdamW: two moments of all other parameters";
  } else if (optimizer.name == "sgd") {
    text = am::config::momentum_of(optimizer) > 0.0 ? "SGD: momentum" : "SGD has no state";
  } else {
    text = am::cat(optimizer.name == "adam" ? "Adam" : "AdamW", ": two moments");
  }
  return optimizer.ema_decay > 0.0 ? text + "; the average of the parameters" : text;
}

// Returns as text the number of ranks over which Megatron's distributed optimizer shards the states
// (`level` 1) or the gradients (`level` 2) of dense parameters. Returns an empty text for another
// strategy, or if the plan's `zero` is below `level`.
std::string level_text(const PlanInput& input, int64_t level) {
  const auto* megatron = std::get_if<am::config::MegatronConfig>(&input.plan.strategy);
  if (megatron == nullptr || megatron->zero < level) return {};
  return am::cat("sharded over ", input.layout.mesh.group_size("dp_shard_cp"));
}

// Returns the rows for a plan whose implementation is not automesh. `memory` was then computed by
// formulas.
std::vector<Component> formula_parts(const PlanInput& input, const MemoryComponents& memory) {
  const am::config::TrainSection& train = input.plan.train;
  const std::string states = level_text(input, 1);
  return {
      {"parameters", memory.parameters, sharding_text(input)},
      {"gradients", memory.gradients, level_text(input, 2)},
      {"optimizer", memory.optimizer,
       am::cat("AdamW: two moments, and master weights if they are kept",
               states.empty() ? "" : "; ", states)},
      {"activations", memory.activations,
       am::cat(train.micro_batch_size, " x ", train.seq_len, " tokens")},
      {"logits", memory.logits, "saved by the loss, plus temporaries of its backward"},
      {"unsharded", memory.unsharded, "gathered parameters and their gradients"},
      {"communication", memory.communication, "counted with the tensors that are sent"},
      {"other", memory.other, "cuBLAS and the batch"},
  };
}

std::vector<Component> parts_of(const PlanInput& input, const MemoryComponents& memory) {
  if (!am::predict::runs_automesh(input.plan)) return formula_parts(input, memory);
  const auto precision = am::layout::resolve_precision(input.plan);
  const std::string sharding = sharding_text(input);
  const am::config::TrainSection& train = input.plan.train;
  const int64_t batches =
      am::config::batch_shape(input.plan, input.layout.mesh.sizes().dp()).micro_batches;
  const bool whole = am::predict::keeps_whole_gradients(input.plan, input.layout.mesh.sizes());
  const bool on_host = am::config::computes_on_host(am::layout::asked_backend(input.plan));
  return {
      {"parameters", memory.parameters, am::cat(precision.storage, ", ", sharding)},
      {"gradients", memory.gradients,
       am::cat(precision.storage, ", ", sharding, ", once they are reduced")},
      {"optimizer", memory.optimizer, states_text(input.plan.optimizer)},
      {"activations", memory.activations,
       am::cat(precision.compute, ", ", train.micro_batch_size, " x ", train.seq_len, " tokens")},
      {"logits", memory.logits, "and the loss; the gradient overwrites the logits"},
      {"unsharded", memory.unsharded, "gathered parameters and a full gradient"},
      {"communication", memory.communication,
       whole ? am::cat("gather buffers, and unreduced gradients of ", batches, " micro-batches")
             : "gather and reduce buffers"},
      {"other", memory.other,
       am::cat(on_host ? "" : "cuBLAS's workspace, ", "the rotary embedding's table",
               input.plan.checkpoint.async && on_host ? ", a checkpoint's copy" : "")},
  };
}

am::Json to_json(const PlanInput& input, const MemoryComponents& memory) {
  am::Json json = am::Json::object();
  for (const Component& part : parts_of(input, memory)) json[part.name] = part.bytes;
  return json;
}

const char* fit_name(Fit fit) {
  switch (fit) {
    case Fit::kFits:
      return "fits";
    case Fit::kMayFit:
      return "may_fit";
    case Fit::kTooLarge:
      return "too_large";
  }
  return "";
}

// The predicted peak memory of a rank, as PyTorch and nvidia-smi would report it on a GPU.
struct OnDevice {
  double reserved = 0.0;  // bytes that PyTorch's caching allocator reserves
  double process = 0.0;   // bytes that nvidia-smi shows; includes the CUDA context
  am::cluster::Gpu gpu;   // the GPU that the plan names, or the assumed one
  bool gpu_is_assumed = false;
  Fit fit = Fit::kFits;  // whether the peak fits into `gpu`
};

std::optional<OnDevice> on_device(const PlanInput& input, int64_t peak_bytes,
                                  am::Diagnostics& found) {
  auto gpu = am::predict::gpu_of(input.plan, found);
  if (!gpu) return std::nullopt;
  const am::cluster::Implementation& who = am::predict::implementation_of(input.plan);
  const auto allocated = static_cast<double>(peak_bytes);
  OnDevice device;
  device.reserved = am::predict::reserved_bytes(who, allocated);
  device.process = am::predict::process_bytes(who, allocated);
  device.gpu = *std::move(gpu);
  device.gpu_is_assumed = input.plan.cluster.gpu.empty();
  device.fit = am::predict::fit_into(who, allocated, device.gpu);
  return device;
}

std::string text_of(const OnDevice& device) {
  const auto show = [&](double value) { return am::format_bytes(static_cast<int64_t>(value)); };
  std::string text = am::cat("\nOn a GPU the allocator reserves about ", show(device.reserved),
                             ", and nvidia-smi shows ", show(device.process), ". ");
  if (device.gpu_is_assumed) text += assumed_gpu_text(device.gpu) + " ";
  const std::string has = am::cat(device.gpu.name, " has ", show(device.gpu.memory_bytes), ": ");
  switch (device.fit) {
    case Fit::kFits:
      return text + has + "it fits, with a margin for the prediction's error.\n";
    case Fit::kMayFit:
      return text + has + "it may not fit: the difference is within the prediction's error.\n";
    case Fit::kTooLarge:
      return text + has + "it does not fit.\n";
  }
  return text;
}

// Returns text about the error of a memory prediction that formulas computed. If measured runs with
// this implementation, GPU and kind of model recorded their memory, the text states a typical
// error. Otherwise it states that the error is unknown.
std::string how_far_off(const PlanInput& input, const OnDevice& device) {
  const am::predict::Workload workload =
      am::predict::workload_of(input.plan, input.model, input.layout);
  const auto runs = am::predict::built_in_runs();
  if (am::predict::memory_evidence(runs, workload, &device.gpu).of_this > 0) {
    return "nine in ten such predictions are within 15 % of the measured memory.";
  }
  return am::cat(
      "the error of this prediction is not known: no measured run recorded the memory of ",
      am::predict::kind_of_model(workload), " on ", device.gpu.name, " with this implementation.");
}

// Returns the peak memory of the rank `peak.rank`, in bytes, for a step in which all tokens are
// routed to the same experts. Returns nullopt for models without experts, and for plans that name
// an implementation other than automesh.
std::optional<int64_t> skewed_peak(const PlanInput& input, const RankMemory& peak) {
  if (!input.model.moe || !am::predict::runs_automesh(input.plan)) return std::nullopt;
  return am::predict::estimate_memory(input.plan, input.model, input.layout, peak.rank,
                                      am::predict::Routing::kSkewed)
      .components.total();
}

am::Json result(const PlanInput& input, const RankMemory& peak,
                const std::vector<RankMemory>& stages, const OnDevice& device) {
  am::Json list = am::Json::array();
  for (const RankMemory& stage : stages) {
    am::Json item = am::Json::object();
    item["stage"] = stage.stage;
    item["rank"] = stage.rank;
    item["peak_bytes"] = stage.components.total();
    item["moment"] = stage.moment;
    item["components"] = to_json(input, stage.components);
    item["host_bytes"] = stage.components.host;
    list.push_back(std::move(item));
  }
  am::Json json = am::Json::object();
  json["peak_bytes"] = peak.components.total();
  json["rank"] = peak.rank;
  json["moment"] = peak.moment;
  json["components"] = to_json(input, peak.components);
  json["host_bytes"] = peak.components.host;
  if (const auto skewed = skewed_peak(input, peak)) json["skewed_peak_bytes"] = *skewed;
  json["stages"] = std::move(list);
  json["implementation"] = am::predict::implementation_of(input.plan).name;
  json["reserved_bytes"] = static_cast<int64_t>(device.reserved);
  json["process_bytes"] = static_cast<int64_t>(device.process);
  json["gpu"] = am::Json{{"name", device.gpu.name},
                         {"memory_bytes", static_cast<int64_t>(device.gpu.memory_bytes)},
                         {"assumed", device.gpu_is_assumed}};
  json["fit"] = fit_name(device.fit);
  return json;
}

std::string stage_table(const std::vector<RankMemory>& stages, const ByteColumn& bytes,
                        const am::term::Style& style) {
  am::term::Table table({{"stage", am::term::Align::kRight},
                         {"worst rank", am::term::Align::kRight},
                         {"peak", am::term::Align::kRight},
                         {"reached in", am::term::Align::kWrap}});
  for (const RankMemory& stage : stages) {
    table.add({am::cat(stage.stage), am::cat(stage.rank), bytes.text(stage.components.total()),
               stage.moment});
  }
  return table.text(style);
}

// Returns a line about the memory that strategy.defer_fsdp_grad_sync = false would save: gradients
// are then reduced after every micro-batch. Returns an empty string if this setting would save no
// memory.
std::string advice(const PlanInput& input, const RankMemory& peak, const ByteColumn& bytes) {
  if (!am::predict::runs_automesh(input.plan)) return {};
  if (!am::predict::keeps_whole_gradients(input.plan, input.layout.mesh.sizes())) return {};
  am::config::Plan eager = input.plan;
  auto* fsdp2 = std::get_if<am::config::FSDP2Config>(&eager.strategy);
  if (fsdp2 == nullptr) return {};
  fsdp2->defer_fsdp_grad_sync = false;
  const RankMemory other =
      am::predict::estimate_memory(eager, input.model, input.layout, peak.rank);
  const int64_t saved = peak.components.total() - other.components.total();
  if (saved <= 0) return {};
  return am::cat("\nstrategy.defer_fsdp_grad_sync = false would save ", bytes.text(saved),
                 ", but reduces gradients after every micro-batch\n");
}

std::string report(const PlanInput& input, const RankMemory& peak,
                   const std::vector<RankMemory>& stages, const OnDevice& device, bool worst,
                   const am::term::Style& style) {
  const int64_t total = peak.components.total();
  const ByteColumn bytes(total);
  std::vector<am::term::Bar> bars;
  std::vector<Component> parts = parts_of(input, peak.components);
  std::erase_if(parts, [](const Component& part) { return part.bytes == 0; });
  for (const Component& part : parts) {
    bars.push_back({part.name, static_cast<double>(part.bytes), bytes.text(part.bytes)});
  }
  std::string text = am::cat(worst ? "worst rank " : "rank ", peak.rank, " of ",
                             mesh_text(input.layout.mesh.sizes(), style), ": ",
                             style.paint(am::term::Role::kBold, bytes.text(total)), ", reached in ",
                             peak.moment, "\n\n");
  const auto lines = am::split(am::term::bars(bars, 24, style), '\n');
  for (size_t i = 0; i < parts.size(); ++i) {
    text += am::term::beside(lines[i], parts[i].why, style, am::term::Role::kDim) + "\n";
  }
  if (peak.components.host > 0) {
    std::vector<std::string> held;
    if (am::layout::offloads_to_host(input.plan.strategy)) {
      held.emplace_back("parameters, gradients and optimizer (offload_policy)");
    }
    const auto* megatron = std::get_if<am::config::MegatronConfig>(&input.plan.strategy);
    if (megatron != nullptr && megatron->activation_offload_fraction > 0.0) {
      held.emplace_back("activations (activation_offload_fraction)");
    }
    if (input.plan.checkpoint.async)
      held.emplace_back("a copy for the checkpoint (checkpoint.async)");
    text += am::cat("and ", bytes.text(peak.components.host),
                    " in host memory: ", am::join(held, ", "), "\n");
  }
  text += advice(input, peak, bytes);
  if (const auto skewed = skewed_peak(input, peak)) {
    text += am::cat(
        "\nexperts are assumed to have equal loads; if all tokens went to the same experts: ",
        bytes.text(*skewed), "\n");
  }
  if (stages.size() > 1) text += "\n" + stage_table(stages, bytes, style);
  text += text_of(device);
  if (am::predict::runs_automesh(input.plan)) {
    return text + "Parameters, gradients and optimizer states are exact, the rest is estimated.\n";
  }
  return text + am::cat("Estimated by formulas for ",
                        am::predict::implementation_of(input.plan).name, ": ",
                        how_far_off(input, device), "\n");
}

int run_memory(const PlanOptions& plan, const std::optional<int64_t>& rank, const Output& output) {
  int status = am_apps::kFine;
  const auto input = load_input(plan, output, status);
  if (!input.has_value()) return status;
  const am::layout::Layout& layout = input->layout;
  require_rank(rank, layout);
  const std::vector<RankMemory> stages =
      rank.has_value()
          ? std::vector{am::predict::memory_of_rank(input->plan, input->model, layout, *rank)}
          : am::predict::memory_of_stages(input->plan, input->model, layout);
  const RankMemory& peak = am::predict::peak_of(stages);
  am::Diagnostics found;
  if (!peak.components.is_in_range()) {
    found.error("predict.range", am::Span{input->plan.file, 0, 0, 1, {}},
                "the predicted memory of a rank is too large to represent",
                "use a smaller train.seq_len or train.micro_batch_size");
    return am_apps::refuse(found, output);
  }
  const auto device = on_device(*input, peak.components.total(), found);
  if (!device) return am_apps::refuse(found, output);
  am_apps::print_diagnostics(found, output);
  if (output.json) {
    am_apps::print(result(*input, peak, stages, *device));
  } else {
    print_folded(report(*input, peak, stages, *device, !rank.has_value(), output.out), output.out);
  }
  return am_apps::kFine;
}

Run declare_memory(CLI::App& command, SharedOptions& shared) {
  auto rank = std::make_shared<std::optional<int64_t>>();
  add_plan(command, shared);
  add_rank(command, "The rank (default: the one with the highest peak)", *rank);
  return [rank, &shared](const Output& output) { return run_memory(shared.plan, *rank, output); };
}

}  // namespace

const Command kMemoryCommand = {
    .name = "memory",
    .summary = "Predict the memory of one rank (default: worst)",
    .example = "am-plan memory plan.toml --set train.micro_batch_size=2",
    .declare = declare_memory,
};

}  // namespace am_plan
