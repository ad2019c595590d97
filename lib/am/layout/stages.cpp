#include "am/layout/stages.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>

#include "am/base/diagnostic.h"
#include "am/config/batch.h"
#include "am/config/schedule_names.h"
#include "am/model/flops.h"
#include "am/pipeline/csv.h"
#include "am/pipeline/schedule.h"

namespace am::layout {

bool split_points_fit(const std::vector<int64_t>& split_points, int64_t layers, int64_t stages) {
  if (static_cast<int64_t>(split_points.size()) != stages - 1) return false;
  int64_t previous = -1;
  for (const int64_t first : split_points) {
    if (first <= previous || first > layers) return false;
    previous = first;
  }
  return true;
}

std::vector<int> stage_of_layers(const config::PipelineSection& pipeline, int64_t layers,
                                 int64_t stages) {
  if (split_points_fit(pipeline.split_points, layers, stages)) {
    std::vector<int> stage_of(static_cast<size_t>(layers), 0);
    for (int64_t layer = 0; layer < layers; ++layer) {
      const auto& points = pipeline.split_points;
      const auto after = std::upper_bound(points.begin(), points.end(), layer);
      stage_of[static_cast<size_t>(layer)] = static_cast<int>(after - points.begin());
    }
    return stage_of;
  }
  return stages_of_even_layers(layers, stages);
}

std::vector<int> stage_of_layers(const config::Plan& plan, const model::ModelConfig& config,
                                 int64_t stages) {
  const int64_t layers = config.num_hidden_layers;
  const bool by_cost = plan.pipeline.balance == "cost" && 1 < stages && stages <= layers &&
                       !split_points_fit(plan.pipeline.split_points, layers, stages);
  if (!by_cost) return stage_of_layers(plan.pipeline, layers, stages);
  return stages_of_even_costs(model::layer_forward_flops(config, plan.train.seq_len),
                              model::head_forward_flops(config), stages);
}

std::vector<int> stages_of_even_layers(int64_t layers, int64_t stages) {
  std::vector<int> stage_of;
  const int64_t share = layers / stages;
  const int64_t left_over = layers % stages;
  for (int64_t stage = 0; stage < stages; ++stage) {
    const int64_t count = share + (stage < left_over ? 1 : 0);
    stage_of.insert(stage_of.end(), static_cast<size_t>(count), static_cast<int>(stage));
  }
  return stage_of;
}

namespace {

// Costs of runs [first, end) of consecutive layers.
class Runs {
 public:
  Runs(const std::vector<double>& costs, double last) : last_(last), sums_{0.0} {
    for (const double cost : costs) sums_.push_back(sums_.back() + cost);
  }

  size_t layers() const { return sums_.size() - 1; }
  double cost(size_t first, size_t end) const {
    return sums_[end] - sums_[first] + (end == layers() ? last_ : 0.0);
  }

 private:
  double last_;
  std::vector<double> sums_;  // sums_[i] is the cost of the first i layers
};

constexpr double kRounding = 1.0 + 1e-12;
constexpr double kNever = std::numeric_limits<double>::infinity();

// The best split of the layers [first, layers) into `count` runs that cost at most `most` each. The
// best split has the least sum of squared costs and, among equal sums, the longest first run.
struct Best {
  double squares = kNever;  // sum of squared costs; kNever: no split is possible
  size_t end = 0;           // end of the first run
};

// Returns the best split of the layers [first, layers) into `count` runs at index [count][first].
std::vector<std::vector<Best>> best_runs(const Runs& runs, double most, size_t stages) {
  const size_t layers = runs.layers();
  std::vector<std::vector<Best>> best(stages + 1, std::vector<Best>(layers + 1));
  best[0][layers].squares = 0.0;
  for (size_t count = 1; count <= stages; ++count) {
    for (size_t first = layers; first-- > 0;) {
      Best& here = best[count][first];
      for (size_t end = first + 1; end <= layers; ++end) {
        const double cost = runs.cost(first, end);
        if (cost > most) break;  // longer runs cost more
        const double squares = cost * cost + best[count - 1][end].squares;
        if (squares <= here.squares * kRounding) here = {squares, end};
      }
    }
  }
  return best;
}

// Returns the lowest possible cost of the most expensive stage, by bisection. A cost is possible if
// the layers can be divided into at most `stages` runs that do not cost more. Fewer runs than
// stages are enough, because runs can be split further.
double least_of_fullest(const Runs& runs, size_t stages) {
  const auto needed = [&runs](double most) {
    size_t count = 1;
    size_t first = 0;
    for (size_t end = 1; end <= runs.layers(); ++end) {
      if (runs.cost(first, end) <= most) continue;
      ++count;
      first = end - 1;
    }
    return count;
  };
  double low = runs.cost(runs.layers() - 1, runs.layers());
  for (size_t i = 0; i + 1 < runs.layers(); ++i) low = std::max(low, runs.cost(i, i + 1));
  double high = runs.cost(0, runs.layers());
  if (needed(low) <= stages) return low;
  for (int halvings = 0; halvings < 50; ++halvings) {
    const double middle = (low + high) / 2.0;
    (needed(middle) <= stages ? high : low) = middle;
  }
  return high;
}

}  // namespace

std::vector<int> stages_of_even_costs(const std::vector<double>& costs, double last,
                                      int64_t stages) {
  const Runs runs(costs, last);
  const auto count = static_cast<size_t>(stages);
  const auto best = best_runs(runs, least_of_fullest(runs, count) * kRounding, count);
  std::vector<int> stage_of;
  for (size_t stage = 0; stage < count; ++stage) {
    stage_of.resize(best[count - stage][stage_of.size()].end, static_cast<int>(stage));
  }
  return stage_of;
}

namespace {

// Returns the schedule of the plan's schedule file; null without a file, or if the file is invalid.
// Caches the parsed schedule, because pipeline_shape() is called many times.
std::shared_ptr<const pipeline::Schedule> custom_schedule(const config::PipelineSection& pipeline) {
  if (!pipeline.csv || !config::is_schedule_file(pipeline.schedule)) return nullptr;
  thread_local std::shared_ptr<const std::string> text;
  thread_local std::shared_ptr<const pipeline::Schedule> parsed;
  if (text == pipeline.csv) return parsed;
  Diagnostics ignored;  // rule "pp.schedule_file" reports these errors
  auto csv = pipeline::parse_csv(*pipeline.csv, pipeline.schedule, ignored);
  parsed.reset();
  if (csv) parsed = std::make_shared<const pipeline::Schedule>(std::move(csv->schedule));
  text = pipeline.csv;
  return parsed;
}

}  // namespace

pipeline::PipelineShape pipeline_shape(const config::PipelineSection& pipeline, int64_t pp) {
  return {.schedule = pipeline.schedule,
          .pp = pp,
          .virtual_stages = pipeline.virtual_stages,
          .microbatches = config::microbatches_of_round(pipeline, pp),
          .own = custom_schedule(pipeline)};
}

pipeline::PipelineShape pipeline_shape(const config::Plan& plan, int64_t pp, int64_t dp) {
  pipeline::PipelineShape shape = pipeline_shape(plan.pipeline, pp);
  if (!std::holds_alternative<config::MegatronConfig>(plan.strategy)) return shape;
  if (pp > 1) shape.microbatches = config::batch_shape(plan, dp).in_round;
  shape.may_stay_partly_full = true;
  return shape;
}

namespace {

// Number of micro-batches per stage that suffices to determine the live memory. Further
// micro-batches repeat the pattern, except in schedules that run all forward passes first.
constexpr int64_t kRoundsThatMatter = 2;

std::shared_ptr<const pipeline::ExecutionLists> make_lists(pipeline::PipelineShape shape) {
  if (pipeline::violated_constraint(shape)) {
    shape.own = nullptr;
    shape.schedule = "looped_bfs";
    if (shape.virtual_stages == 1) shape.schedule = "gpipe";
  }
  if (pipeline::violated_constraint(shape)) return nullptr;
  return std::make_shared<const pipeline::ExecutionLists>(
      pipeline::with_communication(pipeline::make_schedule(shape)));
}

}  // namespace

std::shared_ptr<const pipeline::ExecutionLists> executed_lists(pipeline::PipelineShape shape) {
  using Key = std::tuple<std::string, int64_t, int64_t, int64_t, bool>;
  constexpr size_t kMostRemembered = 256;
  thread_local std::map<Key, std::shared_ptr<const pipeline::ExecutionLists>> remembered;
  if (shape.pp == 1) return nullptr;
  if (shape.own) return make_lists(shape);
  const int64_t enough = kRoundsThatMatter * shape.stages();
  if (shape.microbatches > enough && shape.schedule != "gpipe" && shape.schedule != "looped_bfs") {
    shape.microbatches = enough;
  }
  const Key key{shape.schedule, shape.pp, shape.virtual_stages, shape.microbatches,
                shape.may_stay_partly_full};
  if (remembered.size() >= kMostRemembered && !remembered.contains(key)) remembered.clear();
  const auto [known, is_new] = remembered.try_emplace(key, nullptr);
  if (is_new) known->second = make_lists(shape);
  return known->second;
}

}  // namespace am::layout
