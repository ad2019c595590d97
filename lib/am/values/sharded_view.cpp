#include "am/values/sharded_view.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/checkpoint/weights.h"
#include "am/inspect/facts.h"
#include "am/optim/from_plan.h"
#include "am/optim/schedule.h"
#include "am/rules/check.h"
#include "am/run_folder/shard_index.h"
#include "am/tensor/dtype.h"
#include "am/tensor/redistribute.h"

namespace am::values {

namespace {

// Index of the set of parameters that FSDP ignores. These parameters are never gathered.
constexpr size_t kIgnored = std::numeric_limits<size_t>::max();

}  // namespace

ShardedView::ShardedView(const job::Job& job, const runtime::World& world)
    : plan_(job.plan),
      mesh_(world, job.layout.mesh),
      own_(parallel::ParallelModel::build(job.plan, job.model, job.layout, mesh_)),
      model_(own_.get()) {
  collectives_ = std::make_shared<runtime::RecentCollectives>();
  world.context()->on_collective = [kept = collectives_](const runtime::Collective& collective,
                                                         int64_t bytes) {
    kept->add(collective, bytes);
  };
  weights_ = checkpoint::load_or_initialize(*model_, plan_);
  fresh_ = starts_with(weights_, "initialised");
  add_parameters();
}

ShardedView::ShardedView(LiveJob job)
    : plan_(job.trainer->plan()),
      mesh_(job.trainer->model().mesh()),
      model_(&job.trainer->model()),
      live_(std::move(job)) {
  weights_ = "of the job";
  add_parameters();
  add_states();
}

// Returns a description of the origin of the gradients. In a running job, every step replaces the
// gradients, so each call determines the description anew.
std::string ShardedView::gradients_of() const {
  if (!live_) return gradients_of_;
  const int64_t step = live_->trainer->gradient_step();
  if (live_->text_gradients && *live_->text_gradients == step) return "of the text";
  return step > 0 ? cat("of step ", step) : std::string();
}

void ShardedView::add_parameters() {
  const layout::Layout& layout = model_->layout();
  const formats::Dtype dtype = formats::dtype_of_torch(plan_.model.dtype);
  for (const layout::ParameterLayout& from : layout.parameters) {
    layouts_[from.name] = &from;
    HeldParameter parameter;
    parameter.name = from.name;
    parameter.shape = from.shape;
    parameter.dtype = dtype;
    parameter.placements = from.placements(layout.mesh);
    std::vector<HeldShard>& shards = shards_.emplace_back();
    for (int64_t rank = 0; rank < layout.mesh.world_size(); ++rank) {
      if (!layout.holds(rank, from)) continue;
      for (const layout::LocalShard& part : from.parts(layout.mesh, rank)) {
        shards.push_back({rank, part.box});
      }
    }
    parameter.shards = shards;
    parameters_.push_back(std::move(parameter));
  }
  std::sort(parameters_.begin(), parameters_.end(),
            [](const auto& a, const auto& b) { return natural_less(a.name, b.name); });
  add_groups();
}

// Assigns indices to the sets of parameters that are gathered together. If every rank has shards of
// all parameters, a set is a ParamGroup. If ranks have different pipeline stages or experts, a set
// is an FSDP unit, because the index of a unit is the same on all ranks.
void ShardedView::add_groups() {
  by_units_ = model_->has_pipeline() || mesh().sizes().ep > 1;
  const auto& groups = model_->groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t k = 0; k < groups[g]->owned().size(); ++k) {
      const std::string& name = groups[g]->owned()[k].name;
      places_.emplace(name, Place{g, k});
      if (!by_units_) set_of_.emplace(name, g);
    }
  }
  if (by_units_) {
    for (const auto& [name, layout] : layouts_) set_of_[name] = static_cast<size_t>(layout->unit);
  }
  for (parallel::ParamGroup* group : groups) {
    if (group->owned().empty()) continue;
    const std::string& name = group->owned().front().name;
    groups_[layouts_.at(name)->ignored ? kIgnored : set_of_.at(name)].push_back(group);
  }
}

std::string ShardedView::title() const {
  return inspect::make_title(
      model_->config().model_type,
      live_ ? cat("step ", live_->steps()) : std::filesystem::path(plan_.file).filename().string(),
      mesh());
}

Json ShardedView::info() {
  Json json = {{"target", live_ ? live_->run : plan_.file}, {"kind", live_ ? "job" : "plan"}};
  if (live_ || steps() > 0) json["step"] = steps();
  json["model_type"] = model_->config().model_type;
  add_totals(parameters_, json);
  json["weights"] = weights_;
  json["strategy"] = config::strategy_name(plan_.strategy);
  inspect::add_mesh(mesh(), json);
  json["tokenizer"] = name_or_null(default_tokenizer());
  return json;
}

// Sets states_ to the gradients and optimizer states of all ranks' parameters. Each rank sends the
// list of its states to all ranks, because ranks may have different pipeline stages or experts.
void ShardedView::add_states() {
  states_.clear();
  state_of_.clear();
  std::map<std::string, std::pair<State, std::string>> all;  // state and torch dtype, by name
  const bool has_gradients = !gradients_of().empty();
  if (has_gradients || trainer() != nullptr) {
    Json own = Json::array();
    const auto add = [&](const std::string& name, const std::string& parameter,
                         const std::string& kind, const at::Tensor& value) {
      own.push_back({name, parameter, kind, tensor::dtype_name(value.scalar_type())});
    };
    const auto& groups = model_->groups();
    for (size_t g = 0; g < groups.size(); ++g) {
      for (size_t i = 0; i < groups[g]->owned().size(); ++i) {
        const parallel::LocalParameter& owned = groups[g]->owned()[i];
        const at::Tensor& gradients = groups[g]->flat_grad();
        if (has_gradients && owned.trainable && gradients.defined()) {
          add(cat(kGradientPrefix, owned.name), owned.name, {}, gradients);
        }
        if (trainer() == nullptr) continue;
        for (const auto& state : optim::parameter_state(trainer()->optimizer(), *model_, g, i)) {
          add(run_folder::state_name(owned.name, state.name), owned.name, state.name, state.value);
        }
      }
    }
    for (const std::string& text : mesh_.group("world").all_gather_text(dump_json(own, -1))) {
      for (const Json& each : Json::parse(text)) {
        all.try_emplace(each[0].get<std::string>(),
                        State{each[1].get<std::string>(), each[2].get<std::string>()},
                        each[3].get<std::string>());
      }
    }
  }
  std::map<std::string_view, const HeldParameter*> parameters;
  for (const HeldParameter& each : parameters_) parameters.emplace(each.name, &each);
  for (const auto& [name, what] : all) {
    HeldParameter held = *parameters.at(what.first.parameter);
    held.name = name;
    held.dtype = formats::dtype_of_torch(what.second);
    states_.push_back(std::move(held));
    state_of_.emplace(name, what.first);
  }
  std::sort(states_.begin(), states_.end(),
            [](const auto& a, const auto& b) { return natural_less(a.name, b.name); });
}

// Returns this rank's shard of a gradient or an optimizer state; an undefined tensor if the shard
// does not exist. If `state` is null, returns this rank's shard of the parameter.
at::Tensor ShardedView::part_of(const Place& place, const State* state) const {
  const parallel::ParamGroup& group = *model_->groups()[place.group];
  const parallel::LocalParameter& owned = group.owned()[place.index];
  if (state == nullptr) return group.value_of(owned);
  if (state->kind.empty()) {
    const bool any = owned.trainable && group.flat_grad().defined();
    return any ? group.view_in(group.flat_grad(), place.index) : at::Tensor();
  }
  if (trainer() == nullptr) return {};
  for (const auto& each :
       optim::parameter_state(trainer()->optimizer(), *model_, place.group, place.index)) {
    if (each.name == state->kind) return each.value;
  }
  return {};
}

at::Tensor ShardedView::read(const HeldParameter& parameter, const mesh::Box& box) {
  const at::NoGradGuard no_grad;
  if (state_of_.contains(parameter.name)) return reduce(parameter, box);
  const auto whole = whole_.find(parameter.name);
  const at::Tensor full = whole != whole_.end() && !model_->has_pipeline()
                              ? whole->second
                              : model_->full_parameter(parameter.name);
  return tensor::view_box(full, Shape(parameter.shape.size(), 0), box).cpu();
}

void ShardedView::visit_parts(const HeldParameter& parameter, const mesh::Box& box,
                              const PartVisit& visit) {
  const auto found = state_of_.find(parameter.name);
  const State* state = found == state_of_.end() ? nullptr : &found->second;
  const std::string& name = state == nullptr ? parameter.name : state->parameter;
  const auto first = places_.find(name);
  if (first == places_.end()) return;
  Place place = first->second;
  const auto& all = model_->groups()[place.group]->owned();
  for (size_t& i = place.index; i < all.size() && all[i].name == name; ++i) {
    const auto common = mesh::intersect(all[i].box, box);
    if (!common) continue;
    const at::Tensor own = part_of(place, state);
    if (!own.defined()) continue;
    const at::Tensor values = tensor::view_box(own, all[i].box.offset, *common);
    if (!visit({values, *common, all[i].first_replica})) return;
  }
}

// Returns a setting of the optimizer in the last step; null before the first step, and for an
// unknown name. The names are those of a PyTorch optimizer with one parameter group, for example
// "optim.param_groups.0.lr".
Json ShardedView::value(std::string_view name) const {
  constexpr std::string_view kGroup = "optim.param_groups.0.";
  if (trainer() == nullptr || steps() == 0 || !starts_with(name, kGroup)) return nullptr;
  const config::Plan& plan = trainer()->plan();
  name.remove_prefix(kGroup.size());
  if (name == "lr") {
    return optim::learning_rate(plan.scheduler, plan.optimizer.lr, plan.train.max_steps,
                                steps() - 1);
  }
  if (name == "betas") return plan.optimizer.betas;
  if (name == "eps") return plan.optimizer.eps;
  if (name == "weight_decay") return plan.optimizer.weight_decay;
  return nullptr;
}

std::vector<std::string> ShardedView::value_names() const {
  std::vector<std::string> names;
  for (const char* key : {"betas", "eps", "lr", "weight_decay"}) {
    std::string name = cat("optim.param_groups.0.", key);
    if (!value(name).is_null()) names.push_back(std::move(name));
  }
  return names;
}

std::vector<HeldBytes> ShardedView::held_bytes() {
  HeldBytes own;
  const auto& groups = model_->groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    own.sharded += static_cast<int64_t>(groups[g]->flat().nbytes());
    own.unsharded += groups[g]->unsharded_bytes();
    const at::Tensor& gradients = groups[g]->flat_grad();
    if (gradients.defined()) own.gradients += static_cast<int64_t>(gradients.nbytes());
    if (trainer() == nullptr) continue;
    for (size_t i = 0; i < groups[g]->owned().size(); ++i) {
      for (const auto& state : optim::parameter_state(trainer()->optimizer(), *model_, g, i)) {
        own.optimizer += static_cast<int64_t>(state.value.nbytes());
      }
    }
  }
  for (const auto& [name, value] : whole_) {
    if (value.defined()) own.unsharded += static_cast<int64_t>(value.nbytes());
  }
  return gather_bytes(own);
}

void ShardedView::after_backward(const std::string& of) {
  gradients_of_ = of;
  if (live_ && live_->text_gradients) *live_->text_gradients = live_->trainer->gradient_step();
  add_states();
}

int64_t ShardedView::gradient_bytes() const {
  if (!gradients_of().empty()) return 0;
  int64_t bytes = 0;
  for (const HeldParameter& parameter : parameters_) {
    if (!layouts_.at(parameter.name)->trainable) continue;
    for (const HeldShard& shard : parameter.shards) {
      bytes += shard.box.numel() * formats::dtype_size(parameter.dtype);
    }
  }
  return bytes;
}

// Creates the trainer. Throws Error(kPlan) if the plan breaks a rule for training. A plan that is
// only inspected need not satisfy these rules, so they are checked only here.
void ShardedView::begin_training() {
  if (trainer_) return;
  job::Job job{plan_, model_->config(), model_->layout()};
  job.plan.mesh.world_size = mesh().world_size();
  job.plan.checkpoint.resume = "none";
  job.plan.checkpoint.async = false;
  job.plan.checkpoint.every = 0;
  job.plan.validation = {};
  job.plan.checkpoint.keep_best = 0;
  Diagnostics found;
  rules::check_model(job.plan, job.model, found);
  if (!found.ok()) {
    throw Error(ErrorKind::kPlan, cat("the plan cannot be trained: ", inspect::first_error(found)),
                "`am-plan check` lists all errors");
  }
  trainer_ = std::make_unique<train::Trainer>(job, mesh_.world(), run_folder::RunFolder({}),
                                              train::TrainerCallbacks{}, own_);
}

observe::StepMetrics ShardedView::train(int64_t steps, const Between& between) {
  begin_training();
  whole_.clear();
  unsharded_.clear();
  after_forward();  // frees the gathered parameters, because training changes their values
  observe::StepMetrics last;
  for (int64_t i = 0; i < steps; ++i) {
    if (between) between();
    last = trainer_->train_step(steps_++);
    weights_ = cat("trained in this session to step ", steps_);
    fresh_ = false;
  }
  after_forward();
  after_backward(cat("of step ", steps_));
  return last;
}

std::string ShardedView::forward_next_batch(const Between& between) {
  if (!live_) begin_training();
  if (between) between();
  const int64_t last = trainer()->plan().train.max_steps - 1;
  const int64_t step = std::min(steps(), std::max<int64_t>(last, 0));
  trainer()->forward_only(step);
  after_forward();
  return cat("of the data of step ", step + 1);
}

StepExperts ShardedView::last_experts() const {
  if (trainer() == nullptr) return {};
  return {steps(), trainer()->expert_counts()};
}

std::vector<Json> ShardedView::recent_collectives() {
  if (live_) return ParameterView::recent_collectives();
  std::vector<Json> ranks;
  const Json own = collectives_->to_json(std::nullopt);
  for (const std::string& text : mesh_.group("world").all_gather_text(dump_json(own, -1))) {
    ranks.push_back(Json::parse(text));
  }
  return ranks;
}

void ShardedView::set_compute_dtype(at::ScalarType) {
  throw Error(
      ErrorKind::kUsage, "the compute dtype of a plan's or a job's model is set in the plan",
      "am-repl PLAN takes --set model.dtype=... or --set strategy.mp_policy.param_dtype=...; the "
      "dtype of a running job cannot be changed");
}

DefaultTokenizer ShardedView::default_tokenizer() const {
  return inspect::tokenizer_of(plan_, model_->config().vocab_size);
}

std::string ShardedView::note() const {
  if (!fresh_) return {};
  return cat(std::filesystem::path(plan_.file).filename().string(), ": its weights are ", weights_,
             "; they have not been trained");
}

// Under sequence parallelism, each rank of a tp group computes a section of the sequence, and all
// sections must have equal lengths.
int64_t ShardedView::length_multiple() const {
  return config::sequence_parallel(plan_.strategy) ? mesh().sizes().tp : 1;
}

void ShardedView::export_hf(const std::filesystem::path& folder, const HubExport& options,
                            const Between& between) {
  HubExport chosen = options;
  chosen.tokenizer = default_tokenizer().path();
  checkpoint::export_hf(folder, *model_, chosen, between);
}

}  // namespace am::values
