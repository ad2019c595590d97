#include "am/predict/search/search.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/layout/runs.h"
#include "am/layout/stages.h"
#include "am/model/flops.h"
#include "am/predict/memory/sampled_memory.h"
#include "am/predict/memory/stage_memory.h"
#include "am/predict/search/search_space.h"
#include "am/predict/time/goodput.h"
#include "am/predict/time/prediction.h"

namespace am::predict {
namespace {

// Returns a text that names the part of the step in which `fast` saves the most time compared with
// `slow`, for example "less attention: 1.2 s vs. 1.5 s".
std::string reason(const StepTime& fast, const StepTime& slow) {
  struct Part {
    const char* name;
    double StepTime::*seconds;
  };
  constexpr std::array<Part, 13> kParts = {{{"matrix products", &StepTime::products},
                                            {"attention", &StepTime::attention},
                                            {"memory-bound work", &StepTime::memory_bound},
                                            {"launching", &StepTime::launching},
                                            {"tp communication", &StepTime::tp},
                                            {"cp communication", &StepTime::cp},
                                            {"ep communication", &StepTime::ep},
                                            {"pipeline hops", &StepTime::pp},
                                            {"pipeline bubble", &StepTime::bubble},
                                            {"dp communication", &StepTime::dp},
                                            {"copies to the host", &StepTime::offload},
                                            {"optimizer", &StepTime::optimizer},
                                            {"fixed time", &StepTime::fixed}}};
  const Part* best = nullptr;
  double saved = std::max(1e-6, 1e-6 * slow.seconds);
  for (const Part& part : kParts) {
    const double difference = slow.*part.seconds - fast.*part.seconds;
    if (difference <= saved) continue;
    saved = difference;
    best = &part;
  }
  if (best == nullptr) return "as fast as the next layout";
  return cat("less ", best->name, ": ", format_duration(fast.*best->seconds), " vs. ",
             format_duration(slow.*best->seconds));
}

class Search {
 public:
  Search(const SearchRequest& request, const Calibration& calibration)
      : request_(request),
        calibration_(calibration),
        gpu_(request.usable_gpu()),
        space_(request, calibration.constants),
        flops_per_token_(model::train_flops_per_token(request.model, request.seq_len)) {}

  SearchResult run() {
    const auto start = std::chrono::steady_clock::now();
    result_.batch = request_.batch();
    candidates_ = space_.walk(result_);
    const size_t wanted = static_cast<size_t>(std::max<int64_t>(1, request_.top));
    find_fastest(wanted);
    for (FoundLayout& layout : result_.layouts) count_failures(layout);
    std::stable_sort(result_.layouts.begin(), result_.layouts.end(), is_faster_with_failures);
    find_pareto();
    if (result_.layouts.size() > wanted) result_.layouts.resize(wanted);
    for (FoundLayout& layout : result_.layouts) {
      layout.pareto =
          std::any_of(result_.pareto.begin(), result_.pareto.end(), [&](const FoundLayout& other) {
            return other.step_seconds == layout.step_seconds &&
                   other.peak_bytes == layout.peak_bytes;
          });
    }
    for (size_t i = 0; i + 1 < result_.layouts.size(); ++i) {
      result_.layouts[i].why = reason(result_.layouts[i].time, result_.layouts[i + 1].time);
    }
    const auto end = std::chrono::steady_clock::now();
    result_.seconds = std::chrono::duration<double>(end - start).count();
    return std::move(result_);
  }

 private:
  // Whether `a` is tried after `b`: candidates are ordered by the lower bound of the step time,
  // then by memory. A heap with this comparison has the first candidate on top.
  static bool is_later(const Candidate& a, const Candidate& b) {
    if (a.least_seconds != b.least_seconds) return a.least_seconds > b.least_seconds;
    return a.bytes > b.bytes;
  }

  void find_fastest(size_t wanted) {
    std::vector<Candidate> heap = candidates_;
    std::make_heap(heap.begin(), heap.end(), is_later);
    std::vector<FoundLayout>& found = result_.layouts;
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), is_later);
      const Candidate next = heap.back();
      heap.pop_back();
      if (found.size() >= wanted && next.least_seconds > found[wanted - 1].step_seconds) return;
      const double slowest = found.size() >= wanted ? found[wanted - 1].step_seconds : kForever;
      auto layout = verify(next, slowest);
      if (!layout) continue;
      const auto place = std::upper_bound(found.begin(), found.end(), *layout, is_faster);
      found.insert(place, *std::move(layout));
      if (found.size() > 2 * wanted) found.resize(wanted);
    }
  }

  static bool is_faster(const FoundLayout& a, const FoundLayout& b) {
    return a.step_seconds < b.step_seconds;
  }

  // Compares step times divided by goodput. All layouts use the same number of GPUs and thus fail
  // equally often. Their goodputs may still differ, because the interval between saves is a whole
  // number of steps and because checkpoints of different strategies differ in size.
  static bool is_faster_with_failures(const FoundLayout& a, const FoundLayout& b) {
    return a.step_seconds / a.goodput.value_or(1.0) < b.step_seconds / b.goodput.value_or(1.0);
  }

  void count_failures(FoundLayout& found) {
    if (!request_.counts_failures()) return;
    const auto losses =
        failure_losses(found.plan, checkpoint_bytes_of(found.plan), request_.gpus, request_.gpu);
    const SaveInterval best = best_interval(found.step_seconds, losses);
    found.goodput = best.goodput;
    found.plan.checkpoint.every = best.steps;
  }

  // Returns the bytes of a checkpoint of the plan. The result is cached per strategy, because the
  // layout of a large model takes long to build. All meshes share the cached value, because the
  // bytes of a checkpoint depend on the strategy's precision, but not on the mesh.
  double checkpoint_bytes_of(const config::Plan& plan) {
    const auto [known, is_new] = checkpoint_bytes_.try_emplace(plan.strategy.index(), 0.0);
    if (is_new) {
      Diagnostics ignored;
      const auto mesh = layout::resolve_mesh(plan, 0, ignored);
      AM_ASSERT(mesh.has_value(), "a layout that was found has a mesh");
      const auto layout = layout::build_layout(plan, request_.model, *mesh, ignored);
      AM_ASSERT(layout.has_value(), "a layout that was found can be built");
      known->second = checkpoint_bytes(plan, *layout);
    }
    return known->second;
  }

  // Sets result_.pareto. Considers the found layouts, and up to kMost candidates from the Pareto
  // front that the formulas yield. First simulates the step time and memory of these candidates.
  void find_pareto() {
    constexpr size_t kMost = 6;
    std::sort(candidates_.begin(), candidates_.end(),
              [](const Candidate& a, const Candidate& b) { return is_later(b, a); });
    std::vector<const Candidate*> front;
    double smallest = kForever;
    for (const Candidate& candidate : candidates_) {  // sorted, fastest first
      if (candidate.bytes >= 0.95 * smallest) continue;
      smallest = candidate.bytes;
      front.push_back(&candidate);
    }
    std::vector<FoundLayout> all = result_.layouts;
    const size_t step = std::max<size_t>(1, (front.size() + kMost - 1) / kMost);
    for (size_t i = 0; i < front.size(); i += step) {
      if (auto found = verify(*front[front.size() - 1 - i], kForever)) {
        count_failures(*found);
        all.push_back(*std::move(found));
      }
    }
    std::stable_sort(all.begin(), all.end(), is_faster);
    int64_t least = std::numeric_limits<int64_t>::max();
    for (FoundLayout& layout : all) {
      if (static_cast<double>(layout.peak_bytes) >= 0.95 * static_cast<double>(least)) continue;
      least = layout.peak_bytes;
      layout.pareto = true;
      result_.pareto.push_back(std::move(layout));
    }
    std::reverse(result_.pareto.begin(), result_.pareto.end());
  }

  // Returns the candidate's plan with its simulated step time and its memory. The memory is
  // simulated for automesh, and computed by formula for other implementations. Returns nullopt if
  // the plan does not fit into memory or if its step takes more than `slowest` seconds.
  std::optional<FoundLayout> verify(const Candidate& candidate, double slowest) {
    const Workload& workload = space_.workload_of(candidate);
    FoundLayout found;
    const PipelineOrder* order = workload.pp > 1.0 ? &order_of(candidate, workload) : nullptr;
    found.time = estimate_step_time(workload, request_.gpu, calibration_.constants, order);
    found.step_seconds = found.time.seconds;
    if (found.step_seconds > slowest) return std::nullopt;
    found.tokens_per_second_per_gpu =
        workload.step_tokens() / found.step_seconds / workload.world();
    found.mfu = flops_per_token_ * found.tokens_per_second_per_gpu /
                peak_flops(workload.format, request_.gpu);
    found.plan = space_.plan_of(candidate);
    found.runs = model_runs_ && layout::limits_of_plan(found.plan, &request_.model).empty();
    const bool by_formula = !runs_automesh(found.plan);
    const auto stages =
        by_formula ? formula_of_stages(workload) : walked_stages(candidate, found.plan);
    found.peak_bytes = peak_of(stages).components.total();
    if (by_formula) return found;
    const auto bytes = static_cast<double>(found.peak_bytes);
    if (fit_into(*workload.implementation, bytes, gpu_) == Fit::kFits) return found;
    // A candidate may be verified twice, but is counted once.
    if (misfits_.insert(candidate.number).second) space_.drop_misfit(bytes);
    return std::nullopt;
  }

  // Returns, for each index along pp, the simulated memory of the rank with the largest peak. Uses
  // SampledLayout for the strategy fsdp2, unless SearchSpace::needs_whole_layouts() is true. In all
  // other cases, builds the layout of all layers, which takes longer.
  std::vector<RankMemory> walked_stages(const Candidate& candidate, const config::Plan& plan) {
    if (std::holds_alternative<config::FSDP2Config>(plan.strategy) &&
        !space_.needs_whole_layouts()) {
      return sampled_of(candidate, plan).worst_of_stages(plan);
    }
    Diagnostics found;
    const auto layout = layout::build_layout(plan, request_.model, candidate.mesh, found);
    AM_ASSERT(layout.has_value(), "a sample of the layers has shown that this layout exists");
    return worst_of_stages(plan, request_.model, *layout);
  }

  // Returns the candidate's SampledLayout. Results are cached, because candidates that are verified
  // one after the other often have the same mesh. A full cache is cleared.
  const SampledLayout& sampled_of(const Candidate& candidate, const config::Plan& plan) {
    const mesh::MeshSizes& mesh = candidate.mesh;
    const std::tuple key{mesh.pp,
                         mesh.dp_replicate,
                         mesh.cp,
                         mesh.tp,
                         mesh.ep,
                         candidate.schedule,
                         candidate.sequence_parallel};
    constexpr size_t kMostKept = 64;
    if (sampled_.size() >= kMostKept && !sampled_.contains(key)) sampled_.clear();
    const auto [known, is_new] = sampled_.try_emplace(key, nullptr);
    if (is_new) {
      known->second = std::make_unique<SampledLayout>(plan, request_.model, kinds_,
                                                      space_.sample_of(candidate), mesh);
    }
    return *known->second;
  }

  const PipelineOrder& order_of(const Candidate& candidate, const Workload& workload) {
    const pipeline::PipelineShape shape = pipeline_shape(workload);
    return orders_
        .try_emplace({candidate.schedule, shape.pp, shape.microbatches, shape.may_stay_partly_full},
                     shape)
        .first->second;
  }

  static constexpr double kForever = std::numeric_limits<double>::infinity();

  const SearchRequest& request_;
  const Calibration& calibration_;
  const cluster::Gpu gpu_;  // request_.gpu, with its memory reduced by request_.headroom
  SearchSpace space_;
  double flops_per_token_;
  bool model_runs_ = layout::limits_of_model(request_.model).empty();
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int, bool>,
           std::unique_ptr<SampledLayout>>
      sampled_;
  std::map<std::tuple<int, int64_t, int64_t, bool>, PipelineOrder> orders_;
  std::map<size_t, double> checkpoint_bytes_;  // DistributedConfig::index() -> checkpoint's bytes
  const std::vector<model::LayerKind> kinds_ = model::layer_kinds(request_.model);
  std::vector<Candidate> candidates_;
  std::set<size_t> misfits_;  // Candidate::number of each candidate that drop_misfit() counted
  SearchResult result_;
};

}  // namespace

cluster::Gpu SearchRequest::usable_gpu() const {
  cluster::Gpu usable = gpu;
  usable.memory_bytes *= 1.0 - headroom;
  return usable;
}

int64_t SearchRequest::batch() const {
  return global_batch_size > 0 ? global_batch_size : default_batch_size(gpus, seq_len);
}

int64_t default_seq_len(const model::ModelConfig& model) {
  return std::clamp<int64_t>(model.max_position_embeddings, 1, 4096);
}

int64_t default_batch_size(int64_t gpus, int64_t seq_len) {
  constexpr int64_t kTokens = int64_t{4} << 20;
  constexpr int64_t kTokensOfGpu = 1024;
  const int64_t sequences = std::max<int64_t>(1, std::max(kTokens, gpus * kTokensOfGpu) / seq_len);
  return sequences < gpus ? sequences : (sequences + gpus - 1) / gpus * gpus;
}

SearchResult search(const SearchRequest& request, const Calibration& calibration) {
  return Search(request, calibration).run();
}

}  // namespace am::predict
