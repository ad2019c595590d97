// A model in a plan's layout, seen from one of its ranks.
//
// `unshard` is FSDP's: it gathers a unit's parameters over dp_shard_cp with the collective of
// training, in the dtype of the computation. Named parameters that tp or ep shards are also
// assembled into separate whole copies.
//
// Trainable parameters have states: "optim.state.NAME.exp_avg" and, once gradients exist,
// "grad.NAME". They are sharded like their parameters.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/job/job.h"
#include "am/runtime/device_mesh.h"
#include "am/runtime/recent_collectives.h"
#include "am/train/trainer.h"
#include "am/values/parameter_view.h"

namespace am::values {

// A job that is training.
struct LiveJob {
  std::string run;                    // the run folder
  std::function<int64_t()> steps;     // number of completed steps
  train::Trainer* trainer = nullptr;  // the job's
  // Step count at which the gradients of a text replaced those of the step; shared by all sessions
  // attached to the job.
  std::shared_ptr<std::optional<int64_t>> text_gradients = {};
};

class ShardedView : public ParameterView {
 public:
  // Builds the model and initialises its parameters as the plan says. Collective.
  ShardedView(const job::Job& job, const runtime::World& world);
  // View of a job that is training; its trainer must outlive the view. Collective.
  explicit ShardedView(LiveJob job);

  std::string title() const override;
  Json info() override;
  const std::vector<HeldParameter>& parameters() const override { return parameters_; }
  std::span<const HeldParameter> states() const override { return states_; }
  std::vector<std::string> value_names() const override;
  Json value(std::string_view name) const override;
  const mesh::MeshLayout& mesh() const override { return mesh_.layout(); }
  int64_t rank() const override { return mesh_.rank(); }
  std::string note() const override;
  at::Tensor read(const HeldParameter& parameter, const mesh::Box& box) override;
  void visit_parts(const HeldParameter& parameter, const mesh::Box& box,
                   const PartVisit& visit) override;
  at::Tensor gather(const at::Tensor& row) override;
  std::vector<HeldBytes> held_bytes() override;
  std::vector<HeldShard> usable_boxes(const HeldParameter& parameter) override;
  std::vector<std::string> unshard(std::span<const HeldParameter* const> parameters,
                                   const Between& between) override;
  int64_t unshard_bytes(std::span<const HeldParameter* const> parameters) const override;
  std::vector<std::string> reshard(std::span<const HeldParameter* const> parameters) override;
  std::string unshard_note() const override;
  parallel::ParallelModel& runnable(const Between& /*between*/) override { return *model_; }
  int64_t length_multiple() const override;
  void after_forward() override;
  void after_backward(const std::string& of) override;
  std::string gradients_of() const override;
  int64_t gradient_bytes() const override;
  observe::StepMetrics train(int64_t steps, const Between& between) override;
  std::vector<Json> recent_collectives() override;
  void set_compute_dtype(at::ScalarType dtype) override;
  DefaultTokenizer default_tokenizer() const override;
  void export_hf(const std::filesystem::path& folder, std::optional<at::ScalarType> dtype,
                 const Between& between) override;

 private:
  struct Place {
    size_t group = 0;  // among the model's
    size_t index = 0;  // among the group's owned parameters
  };
  struct State {
    std::string parameter;
    std::string kind;  // "exp_avg"; empty: the gradient
  };

  void add_parameters();
  void add_groups();
  void add_states();
  at::Tensor part_of(const Place& place, const State* state) const;
  at::Tensor read_state(const HeldParameter& state, const mesh::Box& box);
  void begin_training();
  const train::Trainer* trainer() const { return live_ ? live_->trainer : trainer_.get(); }
  std::vector<int64_t> ranks_with(const HeldParameter& parameter) const;
  bool is_cut(const HeldParameter& parameter) const;
  std::vector<HeldShard> gathered_boxes(const HeldParameter& parameter) const;
  std::vector<size_t> sets_of(std::span<const HeldParameter* const> parameters) const;
  std::vector<std::string> names_in(const std::vector<size_t>& sets) const;

  config::Plan plan_;
  runtime::DeviceMesh mesh_;
  std::unique_ptr<parallel::ParallelModel> own_;  // null: the trainer's model is used
  std::unique_ptr<train::Trainer> trainer_;       // created by the first train()
  parallel::ParallelModel* model_;
  std::optional<LiveJob> live_;
  std::string weights_;                        // origin of the values
  bool fresh_ = false;                         // not trained yet
  std::deque<std::vector<HeldShard>> shards_;  // one entry per parameter
  std::vector<HeldParameter> parameters_;
  std::map<std::string, Place> places_;  // of this rank's parameters
  // Sets of parameters that are gathered together, numbered equally on all ranks; groups_ has this
  // rank's groups of each set.
  std::map<std::string, size_t> set_of_;
  bool by_units_ = false;  // sets are units
  std::map<size_t, std::vector<parallel::ParamGroup*>> groups_;
  std::map<std::string, const layout::ParameterLayout*> layouts_;
  std::set<size_t> unsharded_;  // sets that the user unsharded
  // Whole copies of parameters sharded over tp or ep that the user unsharded; without contents on
  // ranks that hold no part of them.
  std::map<std::string, at::Tensor> whole_;
  std::vector<HeldParameter> states_;
  std::map<std::string, State> state_of_;
  std::string gradients_of_;
  int64_t steps_ = 0;                                        // steps of train()
  std::shared_ptr<runtime::RecentCollectives> collectives_;  // of a plan's own ranks
};

}  // namespace am::values
