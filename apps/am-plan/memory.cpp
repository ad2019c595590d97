// am-plan memory PLAN: what the worst rank, or one rank, needs.
#include "am/planner/memory.h"

#include <algorithm>
#include <utility>

#include "am/base/text.h"
#include "am/planner/precision.h"
#include "am/term/bars.h"
#include "am/term/table.h"
#include "commands.h"
#include "plan_input.h"
#include "text.h"

namespace am_plan {
namespace {

using am::planner::MemoryComponents;
using am::planner::RankMemory;

// Names, values and what is behind them, in the order of printing.
struct Part {
  const char* name;
  int64_t bytes;
  std::string why;
};

std::string sharding_text(const PlanInput& input) {
  const am::mesh::MeshLayout& mesh = input.layout.mesh;
  const bool fsdp = input.layout.parameters.front().fsdp;
  std::vector<std::string> parts;
  if (fsdp) parts.push_back(am::cat("sharded over ", mesh.group_size("dp_shard_cp")));
  if (mesh.sizes().tp > 1) parts.push_back(am::cat("cut over tp ", mesh.sizes().tp));
  if (mesh.sizes().pp > 1) parts.push_back(am::cat("1 of ", mesh.sizes().pp, " stages"));
  return parts.empty() ? "whole" : am::join(parts, ", ");
}

std::vector<Part> parts_of(const PlanInput& input, const MemoryComponents& memory) {
  const auto precision = am::planner::resolve_precision(input.plan);
  const std::string sharding = sharding_text(input);
  const am::config::TrainSection& train = input.plan.train;
  const int64_t batches = am::planner::micro_batches(input.plan, input.layout.mesh.sizes());
  const bool whole = am::planner::keeps_whole_gradients(input.plan, input.layout.mesh.sizes());
  return {
      {"parameters", memory.parameters, am::cat(precision.storage, ", ", sharding)},
      {"gradients", memory.gradients, am::cat(precision.storage, ", ", sharding)},
      {"optimizer", memory.optimizer, "AdamW: two moments"},
      {"activations", memory.activations,
       am::cat(precision.compute, ", ", train.micro_batch_size, " x ", train.seq_len, " tokens")},
      {"logits", memory.logits, "the loss, in float32"},
      {"unsharded", memory.unsharded,
       whole ? am::cat("gathered parameters, and gradients kept whole over ", batches,
                       " micro-batches")
             : "gathered parameters and their gradients"},
      {"communication", memory.communication, "gather and reduce buffers"},
      {"other", memory.other, "the rotary embedding's table"},
  };
}

am::Json to_json(const PlanInput& input, const MemoryComponents& memory) {
  am::Json json = am::Json::object();
  for (const Part& part : parts_of(input, memory)) json[part.name] = part.bytes;
  return json;
}

am::Json result(const PlanInput& input, const RankMemory& peak,
                const std::vector<RankMemory>& stages) {
  am::Json list = am::Json::array();
  for (const RankMemory& stage : stages) {
    am::Json item = am::Json::object();
    item["stage"] = stage.stage;
    item["rank"] = stage.rank;
    item["peak_bytes"] = stage.components.total();
    item["moment"] = stage.moment;
    item["components"] = to_json(input, stage.components);
    list.push_back(std::move(item));
  }
  am::Json json = am::Json::object();
  json["peak_bytes"] = peak.components.total();
  json["rank"] = peak.rank;
  json["moment"] = peak.moment;
  json["components"] = to_json(input, peak.components);
  json["stages"] = std::move(list);
  return json;
}

std::string stage_table(const std::vector<RankMemory>& stages, const ByteColumn& bytes,
                        const am::term::Style& style) {
  am::term::Table table({{"stage", am::term::Align::kRight},
                         {"worst rank", am::term::Align::kRight},
                         {"peak", am::term::Align::kRight},
                         {"reached in"}});
  for (const RankMemory& stage : stages) {
    table.add({am::cat(stage.stage), am::cat(stage.rank), bytes.text(stage.components.total()),
               stage.moment});
  }
  return table.text(style);
}

// What reducing gradients after every micro-batch would save.
std::string advice(const PlanInput& input, const RankMemory& peak, const ByteColumn& bytes) {
  if (!am::planner::keeps_whole_gradients(input.plan, input.layout.mesh.sizes())) return {};
  am::config::Plan eager = input.plan;
  auto* fsdp2 = std::get_if<am::config::FSDP2Config>(&eager.strategy);
  if (fsdp2 == nullptr) return {};
  fsdp2->defer_fsdp_grad_sync = false;
  const RankMemory other =
      am::planner::estimate_memory(eager, input.model, input.layout, peak.rank);
  const int64_t saved = peak.components.total() - other.components.total();
  if (saved <= 0) return {};
  return am::cat("\nstrategy.defer_fsdp_grad_sync = false would save ", bytes.text(saved),
                 ", for a reduction after every micro-batch\n");
}

std::string report(const PlanInput& input, const RankMemory& peak,
                   const std::vector<RankMemory>& stages, bool worst,
                   const am::term::Style& style) {
  const int64_t total = peak.components.total();
  const ByteColumn bytes(total);
  std::vector<am::term::Bar> bars;
  const std::vector<Part> parts = parts_of(input, peak.components);
  for (const Part& part : parts) {
    bars.push_back({part.name, static_cast<double>(part.bytes), bytes.text(part.bytes)});
  }
  std::string text = am::cat(worst ? "worst rank " : "rank ", peak.rank, " of ",
                             mesh_text(input.layout.mesh.sizes(), style), ": ",
                             style.paint(am::term::Role::kBold, bytes.text(total)), ", reached in ",
                             peak.moment, "\n\n");
  const auto lines = am::split(am::term::bars(bars, 24, style), '\n');
  for (size_t i = 0; i < parts.size(); ++i) {
    text += am::cat(lines[i], "  ", style.paint(am::term::Role::kDim, parts[i].why), "\n");
  }
  text += advice(input, peak, bytes);
  if (stages.size() > 1) text += "\n" + stage_table(stages, bytes, style);
  return text +
         "\nStates are exact; activations, logits and buffers are formulas for eager PyTorch "
         "without the allocator's own overhead.\n";
}

}  // namespace

int run_memory(const MemoryOptions& options, const Output& output) {
  int status = am_apps::kFine;
  const auto input = load_input(options.plan, output, status);
  if (!input.has_value()) return status;
  const am::planner::Layout& layout = input->layout;
  if (options.rank.has_value() && *options.rank >= layout.mesh.world_size()) {
    throw am::Error(am::ErrorKind::kUsage,
                    am::cat("--rank ", *options.rank, ": the plan has ranks 0 to ",
                            layout.mesh.world_size() - 1));
  }
  const std::vector<RankMemory> stages =
      options.rank.has_value() ? std::vector{am::planner::estimate_memory(input->plan, input->model,
                                                                          layout, *options.rank)}
                               : am::planner::worst_of_stages(input->plan, input->model, layout);
  // max_element keeps the first of equals.
  const RankMemory& peak =
      *std::max_element(stages.begin(), stages.end(), [](const RankMemory& a, const RankMemory& b) {
        return a.components.total() < b.components.total();
      });
  if (output.json) {
    am_apps::print(result(*input, peak, stages));
  } else {
    am_apps::print(report(*input, peak, stages, !options.rank.has_value(), output.out));
  }
  return am_apps::kFine;
}

}  // namespace am_plan
