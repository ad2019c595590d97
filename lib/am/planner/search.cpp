#include "am/planner/search.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/model/flops.h"
#include "am/planner/cost/peak_memory.h"
#include "am/planner/cost/prediction.h"
#include "am/planner/legal_values.h"
#include "am/planner/memory.h"
#include "am/planner/rules.h"

namespace am::planner {
namespace {

// One point of the search: what is not the same for all of them.
struct Candidate {
  mesh::MeshSizes mesh;
  config::DistributedConfig strategy;
  std::string schedule = "1f1b";
  int64_t virtual_stages = 1;
  int64_t micro_batch = 1;
  int64_t micro_batches = 1;
  double seconds = 0;  // closed form
  double bytes = 0;
};

struct ScheduleChoice {
  const char* name;
  int64_t virtual_stages;
};
constexpr std::array<ScheduleChoice, 5> kSchedules = {{{"1f1b", 1},
                                                       {"interleaved_1f1b", 2},
                                                       {"interleaved_1f1b", 4},
                                                       {"interleaved_zero_bubble", 2},
                                                       {"zbv_zero_bubble", 2}}};
constexpr std::array<int64_t, 4> kMicroBatches = {1, 2, 4, 8};

class Search {
 public:
  Search(const SearchRequest& request, const Calibration& calibration)
      : request_(request), calibration_(calibration) {
    base_.model.path = request.model_path;
    base_.train.seq_len = request.seq_len;
    batch_ = request.global_batch_size > 0 ? request.global_batch_size
                                           : default_batch_size(request.gpus, request.seq_len);
    base_.train.global_batch_size = batch_;
    base_.cluster.gpu = request.gpu_name;
    base_.cluster.implementation = std::string(request.implementation->name);
    base_.cluster.calibration = request.calibration;
    base_.mesh.world_size = request.gpus;
    base_.mesh.ranks_per_node = static_cast<int64_t>(request.gpu.gpus_per_node);
    base_.file = "search.toml";
    scratch_ = base_;
  }

  SearchResult run() {
    const auto start = std::chrono::steady_clock::now();
    for (const auto& strategy : strategies()) walk_meshes(strategy);
    rank();
    const auto end = std::chrono::steady_clock::now();
    result_.seconds = std::chrono::duration<double>(end - start).count();
    return std::move(result_);
  }

 private:
  // ---- enumeration -----------------------------------------------------------------------------

  std::vector<config::DistributedConfig> strategies() const {
    std::vector<config::DistributedConfig> all;
    const bool every = request_.strategy == "all";
    if (every || request_.strategy == "fsdp2") all.emplace_back(config::FSDP2Config{});
    if (every || request_.strategy == "megatron_fsdp") {
      for (const int64_t stage : {1, 2, 3}) {
        config::MegatronFSDPConfig megatron;
        megatron.zero_dp_strategy = stage;
        all.emplace_back(megatron);
      }
    }
    if (every || request_.strategy == "ddp") all.emplace_back(config::DDPConfig{});
    return all;
  }

  void walk_meshes(const config::DistributedConfig& strategy) {
    const bool fsdp2 = std::holds_alternative<config::FSDP2Config>(strategy);
    const bool ddp = std::holds_alternative<config::DDPConfig>(strategy);
    const int64_t widest = std::min(static_cast<int64_t>(request_.gpu.link_domain), int64_t{64});
    for (const int64_t tp : divisors(request_.gpus)) {
      if (tp > widest || (ddp && tp > 1)) continue;
      if (request_.model.num_attention_heads % tp != 0 ||
          request_.model.num_key_value_heads % tp != 0) {
        drop("tp does not divide the heads");
        continue;
      }
      for (const int64_t pp : divisors(request_.gpus / tp)) {
        if (pp > request_.model.num_hidden_layers || (!fsdp2 && pp > 1)) continue;
        for (const int64_t cp : divisors(request_.gpus / tp / pp)) {
          if (cp > 16 || (ddp && cp > 1)) continue;
          if (request_.seq_len % (2 * cp * tp) != 0) {
            drop("the sequence does not divide over cp and tp");
            continue;
          }
          walk_data_parallel(strategy, tp, pp, cp);
        }
      }
    }
  }

  void walk_data_parallel(const config::DistributedConfig& strategy, int64_t tp, int64_t pp,
                          int64_t cp) {
    const int64_t dp = request_.gpus / tp / pp / cp;
    if (batch_ % dp != 0) return drop("the batch does not divide over dp");
    std::vector<int64_t> replicas = {1};
    if (std::holds_alternative<config::DDPConfig>(strategy)) {
      replicas = {dp};
    } else if (std::holds_alternative<config::FSDP2Config>(strategy)) {
      // HSDP: shards within a node, or a few nodes.
      for (const int64_t shards : {8, 16, 32, 64, 128}) {
        if (shards < dp && dp % shards == 0) replicas.push_back(dp / shards);
      }
    }
    for (const int64_t replicate : replicas) {
      mesh::MeshSizes mesh{
          .pp = pp, .dp_replicate = replicate, .dp_shard = dp / replicate, .cp = cp, .tp = tp};
      for (const int64_t ep : expert_sizes(mesh)) {
        mesh.ep = ep;
        walk_options(strategy, mesh);
      }
    }
  }

  std::vector<int64_t> expert_sizes(const mesh::MeshSizes& mesh) const {
    if (!request_.model.moe) return {1};
    std::vector<int64_t> sizes;
    const int64_t stage = mesh.dp() * mesh.cp * mesh.tp;
    for (const int64_t ep : divisors(request_.model.moe->experts)) {
      if (stage % ep == 0) sizes.push_back(ep);
    }
    return sizes;
  }

  void walk_options(const config::DistributedConfig& strategy, const mesh::MeshSizes& mesh) {
    for (const int64_t micro_batch : kMicroBatches) {
      const int64_t per_rank = batch_ / mesh.dp();
      if (per_rank % micro_batch != 0) continue;
      Candidate candidate{.mesh = mesh, .strategy = strategy};
      candidate.micro_batch = micro_batch;
      candidate.micro_batches = per_rank / micro_batch;
      for (const ScheduleChoice& choice : kSchedules) {
        if (mesh.pp == 1 && choice.name != kSchedules.front().name) break;
        candidate.schedule = choice.name;
        candidate.virtual_stages = choice.virtual_stages;
        if (mesh.pp > 1 && !schedule_runs(candidate)) continue;
        walk_checkpointing(candidate);
      }
    }
  }

  bool schedule_runs(const Candidate& candidate) {
    const schedule::PipelineShape shape{candidate.schedule, candidate.mesh.pp,
                                        candidate.virtual_stages, candidate.micro_batches};
    if (shape.stages() > request_.model.num_hidden_layers) return false;
    if (!schedule::violated_demand(shape)) return true;
    drop("the schedule does not run with so few micro-batches");
    return false;
  }

  void walk_checkpointing(Candidate candidate) {
    using Checkpointing = config::ActivationCheckpointing;
    if (auto* fsdp2 = std::get_if<config::FSDP2Config>(&candidate.strategy)) {
      for (const bool parallel : {false, true}) {
        if (parallel && candidate.mesh.tp == 1) continue;
        fsdp2->sequence_parallel = parallel;
        // From the least memory to the most: what follows one that does not fit fits neither.
        bool fits = true;
        for (const auto mode :
             {Checkpointing::kFull, Checkpointing::kSelective, Checkpointing::kOff}) {
          fsdp2->activation_checkpointing = mode;
          const bool accumulates = candidate.micro_batches > 1;
          fsdp2->defer_fsdp_grad_sync = !accumulates;
          fits = consider(candidate, fits);
          if (!accumulates) continue;
          fsdp2->defer_fsdp_grad_sync = true;
          consider(candidate, fits);
        }
      }
      return;
    }
    bool fits = true;
    for (const bool full : {true, false}) {
      if (auto* megatron = std::get_if<config::MegatronFSDPConfig>(&candidate.strategy)) {
        megatron->activation_checkpointing = full;
      } else {
        std::get<config::DDPConfig>(candidate.strategy).activation_checkpointing = full;
      }
      fits = consider(candidate, fits);
    }
  }

  // ---- sizing up -------------------------------------------------------------------------------

  config::Plan plan_of(const Candidate& candidate) const {
    config::Plan plan = base_;
    plan.mesh.dp_size = 0;
    plan.mesh.dp_replicate_size = std::holds_alternative<config::DDPConfig>(candidate.strategy)
                                      ? 1
                                      : candidate.mesh.dp_replicate;
    plan.mesh.tp_size = candidate.mesh.tp;
    plan.mesh.pp_size = candidate.mesh.pp;
    plan.mesh.cp_size = candidate.mesh.cp;
    plan.mesh.ep_size = candidate.mesh.ep;
    plan.strategy = candidate.strategy;
    plan.train.micro_batch_size = candidate.micro_batch;
    plan.pipeline.schedule = candidate.schedule;
    plan.pipeline.virtual_stages = candidate.virtual_stages;
    if (candidate.mesh.pp > 1) plan.pipeline.microbatches = candidate.micro_batches;
    return plan;
  }

  const Workload& workload(const Candidate& candidate) {
    // The parts that are the same for all are made once.
    if (!job_) job_ = workload_of(plan_of(candidate), request_.model, candidate.mesh);
    scratch_.strategy = candidate.strategy;
    scratch_.train.micro_batch_size = candidate.micro_batch;
    scratch_.pipeline.schedule = candidate.schedule;
    scratch_.pipeline.virtual_stages = candidate.virtual_stages;
    fill_workload(*job_, scratch_, candidate.mesh);
    return *job_;
  }

  // Whether it fits; `possible`: false when one that takes less does not.
  bool consider(Candidate candidate, bool possible) {
    ++result_.considered;
    if (!possible) {
      drop(last_misfit_);
      return false;
    }
    const Workload& job = workload(candidate);
    const PeakMemory peak = worst_peak_memory(job);
    if (fit_into(job, peak, request_.gpu) != Fit::kFits) {
      last_misfit_ = peak.states + peak.unsharded > 0.7 * request_.gpu.memory_bytes
                         ? "parameters, gradients and optimizer do not fit"
                         : "activations and logits do not fit";
      drop(last_misfit_);
      return false;
    }
    candidate.bytes = peak.total();
    candidate.seconds = estimate_ideal_step_time(job, request_.gpu, calibration_.constants).seconds;
    ++result_.feasible;
    candidates_.push_back(std::move(candidate));
    return true;
  }

  void drop(std::string_view reason) {
    const auto known = result_.dropped.find(reason);
    ++(known != result_.dropped.end() ? known : result_.dropped.emplace(reason, 0).first)->second;
  }

  // ---- ranking ---------------------------------------------------------------------------------

  void rank() {
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      return std::tie(a.seconds, a.bytes) < std::tie(b.seconds, b.bytes);
    });
    // Simulation moves a candidate by a few places, so more are looked at than are returned.
    const auto wanted = static_cast<size_t>(std::max<int64_t>(1, request_.top));
    const size_t looked_at = wanted + wanted / 2 + 2;
    const size_t most = 20 * looked_at;  // of those whose step turns out not to fit
    for (size_t i = 0; i < std::min(most, candidates_.size()); ++i) {
      if (result_.layouts.size() >= looked_at) break;
      if (auto found = verify(candidates_[i])) result_.layouts.push_back(*std::move(found));
    }
    const auto faster = [](const FoundLayout& a, const FoundLayout& b) {
      return a.step_seconds < b.step_seconds;
    };
    std::stable_sort(result_.layouts.begin(), result_.layouts.end(), faster);
    if (result_.layouts.size() > wanted) result_.layouts.resize(wanted);
    find_pareto();
    int64_t smallest = std::numeric_limits<int64_t>::max();
    for (FoundLayout& layout : result_.layouts) {
      layout.pareto = layout.peak_bytes < smallest;
      smallest = std::min(smallest, layout.peak_bytes);
    }
    for (size_t i = 0; i + 1 < result_.layouts.size(); ++i) {
      result_.layouts[i].why = reason(result_.layouts[i].time, result_.layouts[i + 1].time);
    }
  }

  // The fastest of each amount of memory, by the closed forms, then verified.
  void find_pareto() {
    constexpr size_t kMost = 6;
    std::vector<const Candidate*> front;
    double smallest = std::numeric_limits<double>::infinity();
    for (const Candidate& candidate : candidates_) {  // fastest first
      if (candidate.bytes >= 0.95 * smallest) continue;
      smallest = candidate.bytes;
      front.push_back(&candidate);
    }
    const size_t step = std::max<size_t>(1, (front.size() + kMost - 1) / kMost);
    for (size_t i = 0; i < front.size(); i += step) {
      if (auto found = verify(*front[i])) {
        found->pareto = true;
        result_.pareto.push_back(*std::move(found));
      }
    }
    std::reverse(result_.pareto.begin(), result_.pareto.end());
  }

  // The peak to the byte, as `am-plan memory` has it; whether it fits.
  bool walk_memory(const Layout& layout, FoundLayout& found) {
    for (const int64_t rank : distinct_ranks(layout.mesh)) {
      const RankMemory memory = estimate_memory(found.plan, request_.model, layout, rank);
      found.peak_bytes = std::max(found.peak_bytes, memory.components.total());
    }
    if (static_cast<double>(found.peak_bytes) <= 0.9 * request_.gpu.memory_bytes) return true;
    drop("the step's peak does not fit");
    return false;
  }

  // A plan that the rules accept and that fits, with the figures of the other commands.
  std::optional<FoundLayout> verify(const Candidate& candidate) {
    FoundLayout found;
    found.plan = plan_of(candidate);
    Diagnostics diagnostics;
    const CheckedPlan checked = check_model(found.plan, request_.model, diagnostics);
    if (!diagnostics.ok() || !checked.layout) {
      for (const Diagnostic& item : diagnostics.items()) {
        if (item.severity == Severity::kError) {
          drop(cat("rule ", item.rule));
          break;
        }
      }
      return std::nullopt;
    }
    if (!walk_memory(*checked.layout, found)) return std::nullopt;
    const Workload job = workload_of(found.plan, request_.model, *checked.mesh);
    found.time = estimate_step_time(job, request_.gpu, calibration_.constants, order_of(job).get());
    found.step_seconds = found.time.seconds;
    found.tokens_per_second_per_gpu = job.step_tokens() / found.step_seconds / job.world();
    found.mfu = model::train_flops_per_token(request_.model, request_.seq_len) *
                found.tokens_per_second_per_gpu / peak_flops(job, request_.gpu);
    return found;
  }

  std::shared_ptr<const PipelineOrder> order_of(const Workload& job) {
    if (job.pp <= 1.0) return nullptr;
    const auto shape = pipeline_shape(job);
    auto& order = orders_[{shape.schedule, shape.pp, shape.virtual_stages, shape.microbatches}];
    if (!order) order = std::make_shared<const PipelineOrder>(shape);
    return order;
  }

  // What the faster one saves most of.
  static std::string reason(const StepTime& fast, const StepTime& slow) {
    struct Part {
      const char* name;
      double StepTime::*seconds;
    };
    constexpr std::array<Part, 12> kParts = {{{"matrix products", &StepTime::products},
                                              {"attention", &StepTime::attention},
                                              {"memory-bound work", &StepTime::memory_bound},
                                              {"launching", &StepTime::launching},
                                              {"tp communication", &StepTime::tp},
                                              {"cp communication", &StepTime::cp},
                                              {"ep communication", &StepTime::ep},
                                              {"pipeline hops", &StepTime::pp},
                                              {"pipeline bubble", &StepTime::bubble},
                                              {"dp communication", &StepTime::dp},
                                              {"optimizer", &StepTime::optimizer},
                                              {"fixed time", &StepTime::fixed}}};
    const Part* best = nullptr;
    double saved = 1e-6 * slow.seconds;
    for (const Part& part : kParts) {
      const double difference = slow.*part.seconds - fast.*part.seconds;
      if (difference <= saved) continue;
      saved = difference;
      best = &part;
    }
    if (best == nullptr) return "as fast as the next";
    return cat("less ", best->name, ": ", format_duration(fast.*best->seconds), " for ",
               format_duration(slow.*best->seconds));
  }

  const SearchRequest& request_;
  const Calibration& calibration_;
  config::Plan base_;
  config::Plan scratch_;  // of the candidate that is being sized up
  int64_t batch_ = 0;
  std::optional<Workload> job_;
  const char* last_misfit_ = "";
  std::vector<Candidate> candidates_;
  std::map<std::tuple<std::string, int64_t, int64_t, int64_t>, std::shared_ptr<const PipelineOrder>>
      orders_;
  SearchResult result_;
};

}  // namespace

int64_t default_batch_size(int64_t gpus, int64_t seq_len) {
  constexpr int64_t kTokens = int64_t{4} << 20;
  constexpr int64_t kTokensOfGpu = 1024;
  const int64_t sequences = std::max<int64_t>(1, std::max(kTokens, gpus * kTokensOfGpu) / seq_len);
  return sequences < gpus ? sequences : (sequences + gpus - 1) / gpus * gpus;
}

SearchResult search(const SearchRequest& request, const Calibration& calibration) {
  return Search(request, calibration).run();
}

}  // namespace am::planner
