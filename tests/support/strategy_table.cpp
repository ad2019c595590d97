#include "support/strategy_table.h"

#include <ATen/ATen.h>
#include <ATen/native/CPUBlas.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "am/base/text.h"
#include "am/predict/memory/memory.h"
#include "am/tensor/memory_meter.h"
#include "am/train/dry_run.h"
#include "am/train/trainer.h"
#include "support/plans.h"
#include "support/stand_in_device.h"
#include "support/stand_in_streams.h"

namespace am::test {

namespace {

constexpr int64_t kSteps = 5;
constexpr int64_t kMeasuredStep = 1;

std::string plan_text(const Combination& combination, int64_t world, const std::string& layout,
                      TableSize size) {
  const bool model_parallel = combination.dp > 0;
  const int64_t global_batch = model_parallel ? 24 : 12 * (combination.accumulation == 1 ? 1 : 3);
  const int64_t readers = model_parallel && world > 1 ? combination.dp : world;
  const int64_t micro_batch = global_batch / readers / (world == 1 ? 1 : combination.accumulation);
  const bool large = size == TableSize::kLarge;
  // The learned position embeddings of the families' small models have 64 positions.
  const int64_t length = (!large ? 16 : combination.has_large ? 128 : 64) - combination.shorter;
  return cat("[model]\npath = \"", combination.model,
             large && combination.has_large ? "_large" : "", "\"\ndtype = \"", combination.storage,
             "\"\nfreeze_params = ", combination.frozen, "\n[train]\nseq_len = ", length,
             "\nglobal_batch_size = ", global_batch, "\nmicro_batch_size = ", micro_batch,
             "\nmax_steps = ", kSteps, "\nmax_grad_norm = 0.0\n", combination.train,
             "[optimizer]\nlr = 1e-3\neps = ", combination.optimizer_eps,
             "\nema_decay = ", combination.ema_decay, "\n[data]\nkind = \"synthetic\"\n",
             combination.lora, combination.experts, layout);
}

using NamedTensors = std::map<std::string, at::Tensor>;

struct Measured {
  tensor::MemoryBytes peak;
  std::vector<train::PhaseMemory> phases;
  Traffic sent;
};

struct Trained {
  NamedTensors gradients;  // full gradients of the first step, by parameter
  std::vector<double> losses, norms;
  NamedTensors weights;
  std::map<int64_t, Measured> ranks;
};

// Returns all full parameters, or all full gradients, by name. The measured memory and messages do
// not include these gathers.
NamedTensors gather(parallel::ParallelModel& model, bool gradients) {
  const tensor::MemoryUse use(tensor::TensorUse::kHost);
  NamedTensors whole;
  for (const layout::ParameterLayout& parameter : model.layout().parameters) {
    if (gradients && !parameter.trainable) continue;
    const at::Tensor full =
        gradients ? model.full_gradient(parameter.name) : model.full_parameter(parameter.name);
    whole[parameter.name] = full.cpu().to(at::kDouble);
  }
  return whole;
}

enum class Steps { kAll, kUntilMeasured };
enum class Taken { kByScore, kInTurn, kSame };

// Sets how tokens are routed to experts: by score, to all experts in turn, or all to the first two.
void set_routing(parallel::ParallelModel& model, Taken taken) {
  for (const auto& [number, stage] : model.stages()) {
    for (nn::DecoderLayer& layer : stage->decoder().layers()) {
      if (layer.experts) layer.experts->router.in_turn = taken == Taken::kInTurn;
    }
  }
  if (taken != Taken::kSame) return;
  const at::NoGradGuard no_grad;
  model.for_each_owned([](parallel::ParamGroup&, size_t, const parallel::LocalParameter& owned) {
    if (!owned.name.ends_with(".e_score_correction_bias")) return;
    const at::Tensor expert = at::arange(owned.value.size(0)) + owned.box.offset[0];
    owned.value.copy_(expert.lt(2) * 10);
  });
}

// A step is metered only on the host, because a meter counts the tensors of one thread, whereas a
// stand-in device's backward and Gloo's connections run on other threads.
enum class Where { kMeteredHost, kHost, kStandIns };

void run_ranks(Where where, int64_t size, const std::function<void(const runtime::World&)>& body) {
  if (where == Where::kStandIns) return run_stand_ins(size, body);
  runtime::run_ranks(size, body);
}

Trained train(const config::Plan& plan, int64_t world_size, Taken taken, Steps steps = Steps::kAll,
              Where where = Where::kMeteredHost) {
  const bool all = steps == Steps::kAll;
  const std::filesystem::path nowhere = std::filesystem::temp_directory_path() / "am-no-such-run";
  Trained trained;
  std::mutex mutex;
  run_ranks(where, world_size, [&](const runtime::World& world) {
    Diagnostics found;
    const auto config = model::load_config(plan.resolve(plan.model.path), found);
    Measured mine;
    NamedTensors gradients;
    std::vector<double> losses, norms;
    std::optional<tensor::MemoryMeter> meter;
    if (where == Where::kMeteredHost) meter.emplace();
    bool noting = false;
    train::TrainerCallbacks callbacks;
    callbacks.phase = [&](const char* phase) {
      if (noting && meter) mine.phases.push_back({phase, meter->live().total()});
    };
    train::Trainer trainer(job::make_job(plan, *config, world.size()), world,
                           run_folder::RunFolder(nowhere), callbacks);
    set_routing(trainer.model(), taken);
    for (int64_t step = 0; step < (all ? kSteps : kMeasuredStep + 1); ++step) {
      if (step == kMeasuredStep) {
        noting = true;
        world.context()->on_collective = [&](const runtime::Collective& collective, int64_t bytes) {
          auto& [sum, count] = mine.sent[cat(collective.op, " ", collective.group)];
          sum += bytes;
          ++count;
        };
      }
      const observe::StepMetrics metrics = trainer.train_step(step);
      losses.push_back(metrics.loss);
      norms.push_back(metrics.grad_norm);
      if (step == kMeasuredStep) {
        noting = false;
        world.context()->on_collective = nullptr;
        if (meter) mine.peak = meter->peak();
      }
      if (step == 0 && all) gradients = gather(trainer.model(), true);
      if (world.rank() != 0) gradients.clear();
    }
    const NamedTensors weights = all ? gather(trainer.model(), false) : NamedTensors();
    const std::lock_guard lock(mutex);
    if (world.rank() == 0) {
      trained.gradients = std::move(gradients);
      trained.losses = std::move(losses);
      trained.norms = std::move(norms);
      trained.weights = weights;
    }
    trained.ranks[world.rank()] = std::move(mine);
  });
  return trained;
}

double distance(const NamedTensors& got, const NamedTensors& wanted) {
  double difference = 0.0;
  double norm = 0.0;
  for (const auto& [name, tensor] : wanted) {
    difference += (got.at(name) - tensor).square().sum().item<double>();
    norm += tensor.square().sum().item<double>();
  }
  // Returns 0 for equal zeros, such as the gradients of experts without tokens.
  if (difference == 0.0) return 0.0;
  return std::sqrt(difference / norm);
}

void find_worst(const NamedTensors& got, const NamedTensors& wanted, Row& row) {
  for (const auto& [name, tensor] : wanted) {
    const double apart = distance({{name, got.at(name)}}, {{name, tensor}});
    if (apart <= row.worst) continue;
    row.worst = apart;
    row.worst_name = name;
  }
}

double distance(const std::vector<double>& got, const std::vector<double>& wanted) {
  double difference = 0.0;
  double norm = 0.0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    difference += (got.at(i) - wanted[i]) * (got[i] - wanted[i]);
    norm += wanted[i] * wanted[i];
  }
  return std::sqrt(difference / norm);
}

// Returns the value with the larger magnitude.
double further(double a, double b) { return std::abs(a) > std::abs(b) ? a : b; }

config::Plan plan_of(const Combination& combination, TableSize size) {
  return parse(plan_text(combination, combination.world, combination.toml, size));
}

Taken taken_in(const Combination& combination) {
  return combination.skewed ? Taken::kSame : Taken::kByScore;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

// Changes the combination to compute in float16 and returns true, if host and stand-in device then
// agree bit by bit. Returns false, without a change, in two cases. ddp stores parameters in the
// compute dtype, and the rules refuse to train parameters that are stored in float16. Ring
// attention merges partial results with logaddexp, which the host computes element by element, but
// with vector instructions on the device's dense copies.
bool compute_in_float16(Combination& combination) {
  if (combination.toml.find("\"ring\"") != std::string::npos) return false;
  const std::string megatron = "name = \"megatron_fsdp\"\n";
  if (combination.toml.find("mp_policy") != std::string::npos) {
    replace_all(combination.toml, "_dtype = \"float32\"", "_dtype = \"float16\"");
  } else if (combination.toml.find(megatron) != std::string::npos) {
    replace_all(combination.toml, megatron, megatron + "preserve_fp32_weights = true\n");
    combination.storage = "float16";
  } else {
    return false;
  }
  return true;
}

// Returns the values of training on one rank with one micro-batch per step, stored and computed in
// float32. These reference values are computed once and shared by many combinations.
const Trained& of_one_rank(Combination combination, TableSize size) {
  static std::map<std::string, Trained> trained;
  combination.storage = "float32";
  const std::string text =
      plan_text(combination, 1, "[mesh]\nworld_size = 1\n[strategy]\n" + kFullPrecision, size);
  const std::string key = cat(text, combination.skewed ? "skewed" : "");
  const auto found = trained.find(key);
  if (found != trained.end()) return found->second;
  return trained[key] = train(parse(text), 1, taken_in(combination));
}

void compare_memory(Row& row, const config::Plan& plan, const Trained& trained, int64_t world) {
  Diagnostics found;
  const auto config = model::load_config(plan.resolve(plan.model.path), found);
  const job::Job job = job::make_job(plan, *config, world);
  row.formula = step_traffic(plan, *config, job.layout, 0);
  row.sent = trained.ranks.at(0).sent;
  row.peak_bytes = trained.ranks.at(0).peak.total();
  for (const auto& [rank, measured] : trained.ranks) {
    const auto real = static_cast<double>(measured.peak.total());
    const train::DryRun dry = train::dry_run(job, rank);
    const auto planned = static_cast<double>(
        predict::estimate_memory(plan, *config, job.layout, rank).components.total());
    row.peak_dry_run = further(row.peak_dry_run, static_cast<double>(dry.peak.total()) / real - 1);
    row.peak_planner = further(row.peak_planner, planned / real - 1);
    for (size_t i = 0; i < dry.phases.size(); ++i) {
      const auto apart =
          static_cast<double>(dry.phases[i].live_bytes - measured.phases.at(i).live_bytes);
      row.phases = further(row.phases, apart / real);
    }
  }
}

}  // namespace

double packed_operands(const Combination& combination) {
  if (combination.exact) return 0.0;
  return (at::native::cpublas::could_pack(at::kBFloat16) ? 40.0 : 24.0) * 1024.0;
}

Row run(const Combination& combination, TableSize size) {
  const config::Plan plan = plan_of(combination, size);
  const Trained& wanted = of_one_rank(combination, size);
  const Trained got = train(plan, combination.world, taken_in(combination));
  Row row;
  row.gradients = distance(got.gradients, wanted.gradients);
  find_worst(got.gradients, wanted.gradients, row);
  row.losses = distance(got.losses, wanted.losses);
  row.norms = distance(got.norms, wanted.norms);
  row.weights = distance(got.weights, wanted.weights);
  if (combination.measured_in_turn) {
    const Trained measured = train(plan, combination.world, Taken::kInTurn, Steps::kUntilMeasured);
    compare_memory(row, plan, measured, combination.world);
  } else {
    compare_memory(row, plan, got, combination.world);
  }
  return row;
}

Row run_for_memory(const Combination& combination, TableSize size) {
  const config::Plan plan = plan_of(combination, size);
  const Taken taken = combination.measured_in_turn ? Taken::kInTurn : taken_in(combination);
  Row row;
  compare_memory(row, plan, train(plan, combination.world, taken, Steps::kUntilMeasured),
                 combination.world);
  return row;
}

StandInRow run_on_stand_ins(Combination combination) {
  StandInRow row;
  row.exact = compute_in_float16(combination);
  const auto train_on = [&](Where where) {
    config::Plan plan = plan_of(combination, TableSize::kSmall);
    plan.train.loss_scale = 128;  // at this scale, no gradient overflows, so no step is skipped
    return train(plan, combination.world, taken_in(combination), Steps::kAll, where);
  };
  const Trained wanted = train_on(Where::kHost);
  replace_all(combination.toml, "backend = \"gloo\"", "backend = \"cuda:gloo\"");
  const Trained got = train_on(Where::kStandIns);
  row.gradients = distance(got.gradients, wanted.gradients);
  row.losses = distance(got.losses, wanted.losses);
  row.norms = distance(got.norms, wanted.norms);
  row.weights = distance(got.weights, wanted.weights);
  row.last_norm = got.norms.back();
  // On an accelerator, each rank also reports the bytes that its allocator reserved: 8 more bytes
  // per rank and step.
  Traffic sent = wanted.ranks.at(0).sent;
  if (combination.world > 1) {
    auto& [bytes, count] = sent.at("all_reduce world");
    bytes += 8 * combination.world * count;
  }
  row.same_messages = got.ranks.at(0).sent == sent;
  return row;
}

LostWait run_without_wait(Combination combination, uint64_t n) {
  replace_all(combination.toml, "backend = \"gloo\"", "backend = \"cuda:gloo\"");
  StreamOrder& order = stream_order(stand_in_device(0));
  LostWait result;
  order.lose_wait(n);
  try {
    train(plan_of(combination, TableSize::kSmall), combination.world, taken_in(combination),
          Steps::kUntilMeasured, Where::kStandIns);
  } catch (const std::logic_error& error) {  // run_stand_ins throws this error for races
    result.races = error.what();
  }
  result.waits = order.waits();
  order.lose_wait(0);
  return result;
}

}  // namespace am::test
