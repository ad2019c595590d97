// Checks on random plans that predictions of time and memory use the sizes of the layout.
#include "am/predict/time/workload.h"

#include <catch2/catch.hpp>

#include "am/config/batch.h"
#include "am/layout/precision.h"
#include "am/layout/stages.h"
#include "am/predict/memory/peak_memory.h"
#include "am/predict/memory/sampled_memory.h"
#include "am/predict/memory/stage_memory.h"
#include "am/predict/time/prediction.h"
#include "layout/random_plan.h"

namespace am::predict {
using namespace cluster;
using namespace layout;

namespace {

using test::layout_of;
using test::model_of;
using test::plan_of;
using test::RandomPlans;
using test::ValidPlan;

constexpr size_t kPlans = 300;

// Returns random valid plans. They are drawn once, because drawing plans until the rules accept
// them takes longer than most checks.
const std::vector<ValidPlan>& random_plans() {
  static const std::vector<ValidPlan> plans = [] {
    RandomPlans random(14);
    std::vector<ValidPlan> drawn;
    while (drawn.size() < kPlans) drawn.push_back(random.next());
    return drawn;
  }();
  return plans;
}

// ---- expected sums, computed from the layout's parameters --------------------------------------

int64_t first_rank(const Layout& layout, int64_t position) {
  return position * (layout.mesh.world_size() / layout.mesh.sizes().pp);  // pp is outermost
}

// Returns the elements of one stage on its first rank, before data-parallel sharding.
double elements_of_stage(const Layout& layout, int stage) {
  const int64_t rank = first_rank(layout, layout.stage_owners[static_cast<size_t>(stage)]);
  double sum = 0.0;
  for (const ParameterLayout& parameter : layout.parameters) {
    if (!parameter.in_stage(stage) || !layout.holds(rank, parameter)) continue;
    sum += static_cast<double>(numel(parameter.tp_shape(layout.mesh, rank)));
  }
  return sum;
}

std::vector<double> layers_of_stages(const Layout& layout) {
  std::vector<double> layers(layout.stage_owners.size(), 0.0);
  for (const model::Unit& unit : layout.units) {
    if (unit.layer < 0) continue;
    const int stage = layout.parameters[static_cast<size_t>(unit.parameters.front())].stage;
    layers[static_cast<size_t>(stage)] += 1.0;
  }
  return layers;
}

bool reshards_always(const config::Plan& plan) {
  const auto& fsdp2 = std::get<config::FSDP2Config>(plan.strategy);
  return fsdp2.reshard_after_forward.has_value();
}

// Returns the bytes that FSDP sends per step, on the pipeline rank that sends most. Without a
// pipeline, each unit is gathered for forward and for backward of each micro-batch. Gradients are
// reduced once per micro-batch or, if the reduction is deferred, once per step.
double fsdp_bytes(const ValidPlan& valid) {
  const Layout& layout = valid.layout;
  const StepPrecision precision = resolve_precision(valid.plan);
  const auto compute = static_cast<double>(dtype_size(precision.compute));
  const auto reduce = static_cast<double>(dtype_size(precision.reduce));
  const auto micro_batches =
      static_cast<double>(config::batch_shape(valid.plan, layout.mesh.sizes().dp()).micro_batches);
  const double reductions = config::defers_gradient_sync(valid.plan.strategy) ? 1.0 : micro_batches;
  const auto replicas = static_cast<double>(layout.mesh.sizes().dp_replicate);
  // In a pipeline, stages keep their gathered parameters for one round of micro-batches.
  const auto shape = layout::pipeline_shape(valid.plan.pipeline, layout.mesh.sizes().pp);
  const double gathers = shape.pp == 1 || reshards_always(valid.plan)
                             ? 2.0 * micro_batches
                             : micro_batches / static_cast<double>(shape.microbatches);
  double most = 0.0;
  for (int64_t position = 0; position < layout.mesh.sizes().pp; ++position) {
    const int64_t rank = first_rank(layout, position);
    double sent = 0.0;
    for (const ParameterLayout& parameter : layout.parameters) {
      if (!layout.holds(rank, parameter)) continue;
      const double whole = static_cast<double>(layout.copies(rank, parameter)) *
                           static_cast<double>(numel(parameter.tp_shape(layout.mesh, rank)));
      const auto ranks = static_cast<double>(layout.mesh.group_size(parameter.shard_group));
      const double passed = whole * (ranks - 1.0) / ranks;
      sent += passed * (compute * gathers + reduce * reductions);
      const double copies = parameter.expert_parallel() ? 1.0 : replicas;
      sent += whole / ranks * 2.0 * (copies - 1.0) / copies * reduce;
    }
    most = std::max(most, sent);
  }
  return most;
}

// ---- the tests ----------------------------------------------------------------------------------

TEST_CASE("cost's layers and parameters of each stage are the layout's") {
  for (const ValidPlan& valid : random_plans()) {
    const Workload workload = workload_of(valid.plan, valid.model, valid.layout);
    INFO(config::to_toml(valid.plan));
    const std::vector<double> layers = layers_of_stages(valid.layout);
    REQUIRE(workload.layout.stages.size() == layers.size());
    for (size_t stage = 0; stage < layers.size(); ++stage) {
      const StageSummary& summary = workload.layout.stages[stage];
      CHECK(summary.owner == valid.layout.stage_owners[stage]);
      double count = 0.0;
      for (const double of_kind : summary.layers) count += of_kind;
      CHECK(count == layers[stage]);
      CHECK(summary.parameters.total() == elements_of_stage(valid.layout, static_cast<int>(stage)));
    }
  }
}

TEST_CASE("the layout of a sample of the layers has the same sums") {
  for (ValidPlan valid : random_plans()) {
    if (auto* fsdp2 = std::get_if<config::FSDP2Config>(&valid.plan.strategy)) {
      fsdp2->shard_placement.clear();
    }
    Diagnostics found;
    const auto sample =
        build_sample_layout(valid.plan, valid.model, valid.layout.mesh.sizes(), found);
    REQUIRE(sample.has_value());
    const LayoutSummary whole = summary_of(valid.plan, valid.model, valid.layout);
    const LayoutSummary summary = summary_of(valid.plan, valid.model, *sample);
    REQUIRE(summary.stages.size() == whole.stages.size());
    for (size_t stage = 0; stage < whole.stages.size(); ++stage) {
      CHECK(summary.stages[stage].layers == whole.stages[stage].layers);
      CHECK(summary.stages[stage].checkpointed == whole.stages[stage].checkpointed);
      CHECK(summary.stages[stage].parameters.dense == whole.stages[stage].parameters.dense);
      CHECK(summary.stages[stage].parameters.experts == whole.stages[stage].parameters.experts);
    }
    CHECK(summary.table == whole.table);
  }
}

TEST_CASE("cost's messages are those of the layout's parameters") {
  const Gpu gpu = *[] {
    Diagnostics found;
    return find_gpu("h100-sxm", {}, {}, found);
  }();
  int held = 0;
  for (ValidPlan valid : random_plans()) {
    auto* fsdp2 = std::get_if<config::FSDP2Config>(&valid.plan.strategy);
    const bool chosen = fsdp2 != nullptr && !fsdp2->ignored_params.empty();
    const bool kept = fsdp2 == nullptr || fsdp2->reshard_after_forward.has_value();
    if (chosen || kept || !valid.plan.model.freeze_params.empty()) continue;
    ++held;
    const Workload workload = workload_of(valid.plan, valid.model, valid.layout);
    const AxisBytes bytes = estimate_step_time(workload, gpu, CostConstants()).bytes;
    INFO(config::to_toml(valid.plan));
    CHECK(bytes.dp == Approx(fsdp_bytes(valid)).epsilon(1e-9).margin(1.0));
    CHECK((bytes.pp > 0.0) == (valid.layout.mesh.sizes().pp > 1));
  }
  CHECK(held > 20);
}

// The formula is tested for torchtitan, as an example of the implementations whose states are
// sharded like the layout's parameters.
TEST_CASE("memory by formula holds the states that the layout's ranks hold") {
  for (ValidPlan valid : random_plans()) {
    auto* fsdp2 = std::get_if<config::FSDP2Config>(&valid.plan.strategy);
    if (fsdp2 == nullptr || !fsdp2->ignored_params.empty()) continue;
    valid.plan.cluster.implementation = "torchtitan";
    if (resolve_precision(valid.plan).compute == "float32") continue;
    const Workload workload = workload_of(valid.plan, valid.model, valid.layout);
    const auto element = static_cast<double>(dtype_size(resolve_precision(valid.plan).storage));
    INFO(config::to_toml(valid.plan));
    for (int64_t position = 0; position < valid.layout.mesh.sizes().pp; ++position) {
      const int64_t rank = first_rank(valid.layout, position);
      double stored = 0.0;
      for (const ParameterLayout& parameter : valid.layout.parameters) {
        if (!valid.layout.holds(rank, parameter)) continue;
        const mesh::MeshLayout& mesh = valid.layout.mesh;
        const int64_t pieces = parameter.fsdp ? mesh.group_size(parameter.shard_group) : 1;
        stored += static_cast<double>(valid.layout.copies(rank, parameter) *
                                      numel(parameter.tp_shape(mesh, rank))) /
                  static_cast<double>(pieces);
      }
      const PeakMemory peak = estimate_peak_memory(workload, position);
      const double states = fsdp2->offload_policy ? peak.host : peak.states();
      // With Muon, the number of states per parameter is an average over all stages. A stage with
      // the embedding or the head has more states than the average.
      const double average = valid.plan.optimizer.name == "muon" ? 0.1 : 1e-6;
      CHECK(states == Approx(stored * (2.0 + workload.states) * element).epsilon(average));
      if (fsdp2->offload_policy) CHECK(peak.states() == 0.0);
    }
  }
}

// The search drops a layout if the peak by formula (peak_memory.h), multiplied by kLeastOfFormula,
// does not fit into the GPU's memory. It simulates a step only for the remaining layouts.
TEST_CASE("the walk through a step takes no less than the sieve presumes") {
  double least = 1.0;
  RandomPlans plans(19, /*optimizers=*/false);  // candidates use AdamW
  for (size_t i = 0; i < kPlans; ++i) {
    const ValidPlan valid = plans.next();
    const auto* fsdp2 = std::get_if<config::FSDP2Config>(&valid.plan.strategy);
    const bool special =
        fsdp2 != nullptr && (fsdp2->offload_policy || !fsdp2->ignored_params.empty());
    // No candidate of a search has these keys.
    if (special || !valid.plan.model.freeze_params.empty()) continue;
    const Workload workload = workload_of(valid.plan, valid.model, valid.layout);
    const auto stages = worst_of_stages(valid.plan, valid.model, valid.layout);
    const auto walked = static_cast<double>(peak_of(stages).components.total());
    INFO(config::to_toml(valid.plan));
    CHECK(walked >= kLeastOfFormula * worst_peak_memory(workload).total());
    least = std::min(least, walked / worst_peak_memory(workload).total());
  }
  CHECK(least < kLeastOfFormula + 0.15);  // kLeastOfFormula is not much too low
}

TEST_CASE("a sample of the layers has the memory of all") {
  int held = 0;
  for (ValidPlan valid : random_plans()) {
    auto* fsdp2 = std::get_if<config::FSDP2Config>(&valid.plan.strategy);
    if (fsdp2 == nullptr || !fsdp2->ignored_params.empty()) continue;
    if (!fsdp2->shard_placement.empty() || !valid.plan.model.freeze_params.empty()) continue;
    fsdp2->activation_checkpointing_every = 1;
    ++held;
    Diagnostics found;
    const mesh::MeshSizes& sizes = valid.layout.mesh.sizes();
    const auto sample = build_sample_layout(valid.plan, valid.model, sizes, found);
    REQUIRE(sample.has_value());
    const SampledLayout sampled(valid.plan, valid.model, model::layer_kinds(valid.model), *sample,
                                sizes);
    const auto a = sampled.worst_of_stages(valid.plan);
    const auto b = worst_of_stages(valid.plan, valid.model, valid.layout);
    INFO(config::to_toml(valid.plan));
    REQUIRE(a.size() == b.size());
    for (size_t stage = 0; stage < a.size(); ++stage) {
      CHECK(a[stage].rank == b[stage].rank);
      CHECK(a[stage].components.total() == b[stage].components.total());
      CHECK(a[stage].components.parameters == b[stage].components.parameters);
    }
  }
  CHECK(held > 30);
}

TEST_CASE("126 layers on 16 stages are dealt as the layout deals them") {
  const auto config = model_of("llama-3.1-405b");
  const auto plan = plan_of(
      "[mesh]\nworld_size = 16\npp_size = 16\n[pipeline]\nmicrobatches = 16\n"
      "[train]\nglobal_batch_size = 16\n",
      "llama-3.1-405b");
  const Workload workload = workload_of(plan, config, layout_of(plan, config));
  for (size_t stage = 0; stage < 16; ++stage) {
    CHECK(workload.layout.stages[stage].layers[0] == (stage < 14 ? 8.0 : 7.0));
  }
}

TEST_CASE("every N-th layer is checkpointed, and memory by formula keeps the others whole") {
  const auto peak = [](const std::string& strategy) {
    const auto plan = plan_of(cat("[mesh]\nworld_size = 8\n[strategy]\n", strategy,
                                  "[cluster]\nimplementation = \"torchtitan\"\n"));
    const auto model = model_of("llama-3.1-8b");
    return estimate_peak_memory(workload_of(plan, model, layout_of(plan, model)), 0).activations;
  };
  const double off = peak("");
  const double full = peak("activation_checkpointing = \"full\"\n");
  const double fourth =
      peak("activation_checkpointing = \"full\"\nactivation_checkpointing_every = 4\n");
  const double mlp = peak("activation_checkpointing = \"mlp\"\n");
  CHECK(fourth == Approx(0.75 * off + 0.25 * full));
  CHECK(full < mlp);
  CHECK(mlp < off);
}

TEST_CASE("no schedule is faster than its least time") {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> some(0.5, 2.0);
  for (const std::string_view name : pipeline::schedule_names()) {
    for (const int64_t pp : {2, 4, 8}) {
      for (const int64_t virtual_stages : {1, 2, 4}) {
        for (const int64_t microbatches : {pp, 2 * pp, 5 * pp, 20 * pp}) {
          const pipeline::PipelineShape shape{std::string(name), pp, virtual_stages, microbatches};
          if (pipeline::violated_constraint(shape)) continue;
          std::vector<pipeline::StageDurations> stages;
          for (int64_t i = 0; i < shape.stages(); ++i) {
            const double backward = some(random);
            stages.push_back({some(random), backward, backward});
          }
          INFO(name << " pp " << pp << " v " << virtual_stages << " m " << microbatches);
          CHECK(least_seconds(shape, stages) <=
                1.000001 * PipelineOrder(shape).run(stages).seconds);
        }
      }
    }
  }
}

}  // namespace
}  // namespace am::predict
