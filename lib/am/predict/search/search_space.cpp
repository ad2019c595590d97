#include "am/predict/search/search_space.h"

#include <algorithm>
#include <array>
#include <utility>

#include "am/base/legal_values.h"
#include "am/base/text.h"
#include "am/layout/runs.h"
#include "am/predict/memory/activations.h"
#include "am/predict/memory/stage_memory.h"
#include "am/predict/search/searched_strategies.h"
#include "am/predict/time/step_time.h"

namespace am::predict {
namespace {

using Checkpointing = config::ActivationCheckpointing;

constexpr std::array<int64_t, 4> kMicroBatches = {1, 2, 4, 8};

// Whether `sizes`, the sizes of an axis in the request, contain `size`. True if `sizes` is empty.
bool allows(const std::vector<int64_t>& sizes, int64_t size) {
  return sizes.empty() || std::find(sizes.begin(), sizes.end(), size) != sizes.end();
}

std::string first_error(const Diagnostics& found) {
  for (const Diagnostic& item : found.items()) {
    if (item.severity == Severity::kError) return item.rule;
  }
  return {};
}

}  // namespace

SearchSpace::SearchSpace(const SearchRequest& request, const CostConstants& constants)
    : request_(request),
      constants_(constants),
      gpu_(request.usable_gpu()),
      strategies_(searched_strategies(request)),
      schedules_{{"1f1b", 1},
                 {"interleaved_1f1b", 2},
                 {"interleaved_1f1b", 4},
                 {"interleaved_zero_bubble", 2},
                 {"zbv_zero_bubble", 2}},
      batch_(request.batch()) {
  if (request.strategy == "megatron") {  // Megatron supports only the following schedules
    schedules_ = {{"1f1b", 1}};
    for (int64_t stages = 2; stages <= 8; ++stages) {
      schedules_.push_back({"interleaved_1f1b", stages});
    }
  }
  if (request.base) {
    base_ = *request.base;
    base_.mesh = {};
    base_.pipeline.split_points.clear();
    if (request.held.schedule) {
      schedules_ = {{base_.pipeline.schedule, base_.pipeline.virtual_stages}};
    }
  } else {
    base_.file = "search.toml";
  }
  base_.model.path = request.model_path;
  base_.model.named = request.model_name;
  base_.train.seq_len = request.seq_len;
  base_.train.global_batch_size = batch_;
  base_.cluster.gpu = request.gpu_name;
  base_.cluster.implementation = std::string(request.implementation->name);
  base_.cluster.calibration = request.calibration;
  if (request.counts_failures()) {
    base_.cluster.hours_between_failures = request.hours_between_failures;
    base_.cluster.storage_gb_per_s = request.storage_gb_per_s;
  }
  base_.mesh.world_size = request.gpus;
  base_.mesh.ranks_per_node = static_cast<int64_t>(request.gpu.gpus_per_node);
  scratch_ = base_;
  workload_.model = shape_of(request.model);
  if (request.base) set_choices();
}

void SearchSpace::set_choices() {
  for (const config::DistributedConfig& strategy : strategies_) {
    config::Plan plan = base_;
    plan.strategy = strategy;
    const mesh::MeshSizes one_rank;
    Diagnostics ignored;
    const auto layout = layout::build_layout(plan, request_.model, one_rank, ignored);
    const auto sample = layout::build_sample_layout(plan, request_.model, one_rank, ignored);
    LayoutSummary summary;
    Workload workload = workload_;
    if (layout) {
      summary = summary_of(plan, request_.model, *layout);
      fill_workload(workload, plan, *layout, one_rank);
    }
    const auto* fsdp2 = std::get_if<config::FSDP2Config>(&strategy);
    whole_layouts_ = whole_layouts_ || !sample || plan.lora.rank > 0 ||
                     !plan.model.freeze_params.empty() || !plan.optimizer.groups.empty() ||
                     (fsdp2 != nullptr && !fsdp2->ignored_params.empty());
    choices_.push_back({summary.trained, summary.ignored, summary.quantized,
                        summary.backward_layers, workload.states});
  }
}

std::vector<Candidate> SearchSpace::walk(SearchResult& result) {
  result_ = &result;
  const bool runs = layout::limits_of_model(request_.model).empty();
  if (request_.runnable && !runs) {
    refuse("runtime.unsupported");
    return {};
  }
  for (size_t i = 0; i < strategies_.size(); ++i) walk_meshes(static_cast<int>(i));
  return std::move(candidates_);
}

// ---- enumeration --------------------------------------------------------------------------------

void SearchSpace::walk_meshes(int strategy) {
  constexpr int64_t kWidestTp = 64;
  constexpr int64_t kWidestCp = 16;
  const auto& kind = strategies_[static_cast<size_t>(strategy)];
  const bool ddp = std::holds_alternative<config::DDPConfig>(kind);
  const int64_t widest = std::min(static_cast<int64_t>(request_.gpu.link_domain), kWidestTp);
  // Without tp, the second of two entries for megatron (etp_size = 1) equals the first, so it is
  // skipped.
  const auto* megatron = std::get_if<config::MegatronConfig>(&kind);
  const auto* before =
      strategy > 0
          ? std::get_if<config::MegatronConfig>(&strategies_[static_cast<size_t>(strategy) - 1])
          : nullptr;
  const bool repeats = megatron != nullptr && before != nullptr && megatron->fp8 == before->fp8;
  for (const int64_t tp : divisors(request_.gpus)) {
    if (tp > widest || (ddp && tp > 1)) break;
    if (!allows(request_.tp_sizes, tp)) continue;
    const int64_t etp = expert_tp(kind, tp);
    if (tp == 1 && repeats) continue;
    for (const int64_t pp : divisors(request_.gpus / tp)) {
      if (pp > request_.model.num_hidden_layers || (!has_every_axis(kind) && pp > 1)) break;
      if (!allows(request_.pp_sizes, pp)) continue;
      for (const int64_t cp : divisors(request_.gpus / tp / pp)) {
        if (cp > kWidestCp || (ddp && cp > 1)) break;
        if (!allows(request_.cp_sizes, cp)) continue;
        Candidate candidate{.mesh = {.pp = pp, .cp = cp, .tp = tp, .etp = etp},
                            .strategy = strategy};
        walk_data_parallel(candidate);
      }
    }
  }
}

void SearchSpace::walk_data_parallel(Candidate candidate) {
  const auto& strategy = strategies_[static_cast<size_t>(candidate.strategy)];
  mesh::MeshSizes& mesh = candidate.mesh;
  const int64_t dp = request_.gpus / mesh.tp / mesh.pp / mesh.cp;
  std::vector<int64_t> replicas = {1};
  if (std::holds_alternative<config::DDPConfig>(strategy)) {
    replicas = {dp};
  } else if (is_fsdp2(strategy)) {
    // HSDP: parameters are sharded over groups of 8 to 128 ranks and replicated over the groups.
    for (const int64_t shards : {8, 16, 32, 64, 128}) {
      if (shards < dp && dp % shards == 0) replicas.push_back(dp / shards);
    }
  }
  if (request_.held.dp_replicate) {
    const int64_t held = request_.base->mesh.dp_replicate_size;
    replicas.assign(dp % held == 0 ? 1 : 0, held);
  }
  for (const int64_t replicate : replicas) {
    mesh.dp_replicate = replicate;
    mesh.dp_shard = dp / replicate;
    for (const int64_t ep : expert_sizes(mesh)) {
      mesh.ep = ep;
      set_mesh(candidate, scratch_);
      Diagnostics found;
      if (!layout::resolve_mesh(scratch_, 0, found)) {
        refuse(first_error(found));
      } else if (request_.runnable && !layout::limits_of_plan(scratch_, &request_.model).empty()) {
        refuse("runtime.unsupported");
      } else {
        walk_options(candidate);
      }
    }
  }
}

std::vector<int64_t> SearchSpace::expert_sizes(const mesh::MeshSizes& mesh) const {
  if (!request_.model.moe) {
    return allows(request_.ep_sizes, 1) ? std::vector<int64_t>{1} : std::vector<int64_t>();
  }
  std::vector<int64_t> sizes;
  const int64_t stage = mesh.dp() * mesh.cp * mesh.tp;
  for (const int64_t ep : divisors(request_.model.moe->experts)) {
    if (stage % ep == 0 && allows(request_.ep_sizes, ep)) sizes.push_back(ep);
  }
  return sizes;
}

void SearchSpace::walk_options(Candidate candidate) {
  const auto& strategy = strategies_[static_cast<size_t>(candidate.strategy)];
  const bool may_cut = has_every_axis(strategy) && candidate.mesh.tp > 1;
  for (const bool sequence_parallel : {false, true}) {
    if (sequence_parallel && !may_cut) continue;
    if (request_.held.sequence_parallel && may_cut &&
        sequence_parallel != config::sequence_parallel(strategy)) {
      continue;
    }
    candidate.sequence_parallel = sequence_parallel;
    const Cut& cut = cut_of(candidate);
    if (!cut.refused_by.empty()) {
      refuse(cut.refused_by);
      continue;
    }
    // Skips sequence parallelism if the model's TP plan does not apply it: the candidate would
    // equal the one without sequence parallelism.
    if (sequence_parallel && !cut.sample.tp_plan.sequence_parallel) continue;
    for (const int64_t micro_batch : micro_batches()) {
      if (micro_batch > 1 && batch_ % (micro_batch * candidate.mesh.dp()) != 0) continue;
      candidate.micro_batch = micro_batch;
      candidate.micro_batches = std::max<int64_t>(1, batch_ / (candidate.mesh.dp() * micro_batch));
      walk_schedules(candidate);
    }
  }
}

std::vector<int64_t> SearchSpace::micro_batches() const {
  if (request_.held.micro_batch) return {request_.base->train.micro_batch_size};
  return {kMicroBatches.begin(), kMicroBatches.end()};
}

std::vector<Checkpointing> SearchSpace::checkpointing_modes() const {
  if (request_.held.checkpointing) return {config::checkpointing_of(request_.base->strategy)};
  return {Checkpointing::kFull, Checkpointing::kSelective, Checkpointing::kOff};
}

void SearchSpace::walk_schedules(Candidate candidate) {
  for (size_t i = 0; i < schedules_.size(); ++i) {
    if (i > 0 && candidate.mesh.pp == 1) break;
    candidate.schedule = static_cast<int>(i);
    set_options(candidate, scratch_);
    const std::string refused_by = refusal(candidate.mesh, nullptr, rules::Needs::kMesh);
    if (!refused_by.empty()) {
      refuse(refused_by);
      continue;
    }
    set_stages(candidate);
    walk_checkpointing(candidate);
  }
}

// Tries the checkpointing modes in order of increasing memory. If a mode does not fit, the modes
// after it need more memory, so they are dropped without evaluation.
void SearchSpace::walk_checkpointing(Candidate candidate) {
  const auto& strategy = strategies_[static_cast<size_t>(candidate.strategy)];
  const bool fsdp2 = is_fsdp2(strategy);
  const bool only_full = std::holds_alternative<config::MegatronFSDPConfig>(strategy);
  const bool accumulates = candidate.micro_batches > 1;
  const char* misfit = nullptr;
  for (const Checkpointing mode : checkpointing_modes()) {
    if (only_full && mode != Checkpointing::kFull && mode != Checkpointing::kOff) continue;
    candidate.checkpointing = mode;
    // Without gradient accumulation, defer_fsdp_grad_sync has no effect and keeps its default,
    // true.
    candidate.defers_reduction = fsdp2 && !accumulates;
    misfit = consider(candidate, misfit);
    if (!fsdp2 || !accumulates) continue;
    candidate.defers_reduction = true;
    consider(candidate, misfit);
  }
}

// ---- checks and predictions ---------------------------------------------------------------------

void SearchSpace::set_mesh(const Candidate& candidate, config::Plan& plan) const {
  const auto& strategy = strategies_[static_cast<size_t>(candidate.strategy)];
  const bool ddp = std::holds_alternative<config::DDPConfig>(strategy);
  plan.mesh.dp_replicate_size = ddp ? 1 : candidate.mesh.dp_replicate;
  plan.mesh.tp_size = candidate.mesh.tp;
  plan.mesh.pp_size = candidate.mesh.pp;
  plan.mesh.cp_size = candidate.mesh.cp;
  plan.mesh.ep_size = candidate.mesh.ep;
  plan.strategy = strategy;
}

void SearchSpace::set_options(const Candidate& candidate, config::Plan& plan) const {
  const ScheduleChoice& schedule = schedules_[static_cast<size_t>(candidate.schedule)];
  plan.train.micro_batch_size = candidate.micro_batch;
  plan.pipeline.schedule = schedule.name;
  plan.pipeline.virtual_stages = schedule.virtual_stages;
  plan.pipeline.microbatches = candidate.mesh.pp > 1 ? candidate.micro_batches : 0;
  config::set_checkpointing(candidate.checkpointing, plan.strategy);
  if (auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy)) {
    fsdp2->sequence_parallel = candidate.sequence_parallel;
    fsdp2->defer_fsdp_grad_sync = candidate.defers_reduction;
  }
  if (auto* megatron = std::get_if<config::MegatronConfig>(&plan.strategy)) {
    megatron->sequence_parallel = candidate.sequence_parallel;
    megatron->recompute_modules.clear();
    if (candidate.checkpointing == Checkpointing::kSelective) {
      megatron->recompute_modules = modules_of(candidate);
    }
  }
}

// Returns the modules that a candidate of the strategy megatron recomputes under selective
// checkpointing.
const std::vector<std::string>& SearchSpace::modules_of(const Candidate& candidate) const {
  const auto& strategy = strategies_[static_cast<size_t>(candidate.strategy)];
  return std::get<config::MegatronConfig>(strategy).recompute_modules;
}

config::Plan SearchSpace::plan_of(const Candidate& candidate) const {
  config::Plan plan = base_;
  set_mesh(candidate, plan);
  set_options(candidate, plan);
  return plan;
}

std::string SearchSpace::refusal(const mesh::MeshSizes& mesh, const layout::Layout* layout,
                                 rules::Needs needs) const {
  const rules::RuleContext context{.plan = scratch_,
                                   .model = &request_.model,
                                   .axes = &mesh,
                                   .dp = mesh.dp(),
                                   .mesh = &mesh,
                                   .layout = layout};
  for (const rules::Rule* rule : rules::all_rules()) {
    if (rule->check == nullptr || rule->needs != needs) continue;
    Diagnostics found;
    rule->check(context, found);
    if (!found.ok()) return std::string(rule->id);
  }
  return {};
}

// Builds the sample layout (the layout of all layers if whole_layouts_ is true) and checks it by
// the rules that need a layout. One layer of each kind is enough for these rules, because they
// depend on modules, which are equal in all layers of a kind. Results are cached.
const SearchSpace::Cut& SearchSpace::cut_of(const Candidate& candidate) {
  const auto& schedule = schedules_[static_cast<size_t>(candidate.schedule)];
  const std::tuple key{candidate.strategy, candidate.mesh.tp, candidate.mesh.ep,
                       candidate.sequence_parallel, schedule.virtual_stages > 1};
  const auto known = cuts_.find(key);
  if (known != cuts_.end()) return known->second;
  set_options(candidate, scratch_);
  Diagnostics found;
  mesh::MeshSizes sizes{.dp_shard = candidate.mesh.ep * candidate.mesh.etp,
                        .tp = candidate.mesh.tp};
  sizes.ep = candidate.mesh.ep;
  sizes.etp = candidate.mesh.etp;
  auto sample = whole_layouts_
                    ? layout::build_layout(scratch_, request_.model, sizes, found)
                    : layout::build_sample_layout(scratch_, request_.model, sizes, found);
  Cut cut{.sample = layout::Layout{.mesh = mesh::MeshLayout(sizes)}, .cuts = {}, .refused_by = {}};
  if (sample.has_value()) {
    cut.sample = *std::move(sample);
    cut.cuts = local_cuts(request_.model, cut.sample);
    cut.refused_by = refusal(sizes, &cut.sample, rules::Needs::kLayout);
  } else {
    cut.refused_by = first_error(found);
  }
  return cuts_.emplace(key, std::move(cut)).first->second;
}

void SearchSpace::set_stages(const Candidate& candidate) {
  const Cut& cut = cut_of(candidate);
  set_options(candidate, scratch_);
  workload_.layout = summarize_stages(scratch_, request_.model, candidate.mesh, cut.cuts);
  // Marks all layers as checkpointed. workload_.recompute, which may be kOff, is set afterwards.
  for (StageSummary& stage : workload_.layout.stages) stage.checkpointed = stage.layers;
  fill_workload(workload_, scratch_, cut.sample, candidate.mesh);
  // Sets the modules that kSelective recomputes, because workload_.recompute may become kSelective.
  if (std::holds_alternative<config::MegatronConfig>(scratch_.strategy)) {
    workload_.megatron.recomputed = config::recomputed_modules(modules_of(candidate));
  }
  if (choices_.empty()) return;
  const Choices& choices = choices_[static_cast<size_t>(candidate.strategy)];
  workload_.layout.trained = choices.trained;
  workload_.layout.ignored = choices.ignored;
  workload_.layout.quantized = choices.quantized;
  workload_.layout.backward_layers = choices.backward_layers;
  workload_.states = choices.states;
}

const Workload& SearchSpace::workload_of(const Candidate& candidate) {
  set_mesh(candidate, scratch_);
  set_stages(candidate);
  return workload_;
}

// Returns why the candidate does not fit, or null if it fits. `misfit`: the result of consider()
// for a candidate that needs less memory than this one; null if that candidate fits or if there is
// none.
const char* SearchSpace::consider(Candidate candidate, const char* misfit) {
  ++result_->considered;
  if (misfit != nullptr) {
    drop(misfit);
    return misfit;
  }
  workload_.recompute = candidate.checkpointing;
  if (is_fsdp2(strategies_[static_cast<size_t>(candidate.strategy)])) {
    workload_.defers_reduction = candidate.defers_reduction && candidate.micro_batches > 1;
  }
  const PeakMemory peak = worst_peak_memory(workload_);
  const bool is_walked = request_.implementation == &cluster::automesh_implementation();
  const double least = peak.total() * (is_walked ? kLeastOfFormula : 1.0);
  if (fit_into(*workload_.implementation, least, gpu_) != Fit::kFits) {
    misfit = peak.states() + peak.unsharded > 0.7 * gpu_.memory_bytes
                 ? "parameters, gradients and optimizer do not fit"
                 : "activations and logits do not fit";
    drop(misfit);
    note_misfit(peak.total());
    return misfit;
  }
  candidate.bytes = peak.total();
  candidate.number = candidates_.size();
  candidate.least_seconds = least_step_time(workload_, request_.gpu, constants_).seconds;
  ++result_->feasible;
  candidates_.push_back(candidate);
  return nullptr;
}

void SearchSpace::note_misfit(double bytes) {
  const auto whole = static_cast<int64_t>(bytes);
  int64_t& smallest = result_->smallest_misfit;
  if (smallest == 0 || whole < smallest) smallest = whole;
}

void SearchSpace::drop_misfit(double bytes) {
  --result_->feasible;
  drop("the exact peak memory does not fit, although the quick estimate does");
  note_misfit(bytes);
}

void SearchSpace::refuse(std::string_view rule) {
  ++result_->considered;
  const rules::Rule* known = rules::find_rule(rule);
  drop(cat("rule ", rule, known != nullptr ? cat(": ", known->summary) : std::string()));
}

void SearchSpace::drop(std::string_view reason) {
  const auto known = result_->dropped.find(reason);
  ++(known != result_->dropped.end() ? known : result_->dropped.emplace(reason, 0).first)->second;
}

}  // namespace am::predict
