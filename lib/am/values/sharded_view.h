// View of a model in the layout of a plan, from one of the model's ranks.
//
// The command `unshard` gathers all parameters of an FSDP unit over dp_shard_cp, by the all-gather
// of training and in the compute dtype. If the user names a parameter that tp or ep shards,
// `unshard` also assembles a separate full copy of this parameter.
//
// States of trainable parameters are sharded like the parameters. "grad.NAME" exists after a
// backward pass. States such as "optim.state.NAME.exp_avg" exist in a running job and, for a plan,
// after the first training step.
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

// Access to a running job on this rank.
struct LiveJob {
  std::string run;                    // path of the run folder
  std::function<int64_t()> steps;     // returns the number of completed steps
  train::Trainer* trainer = nullptr;  // trains this rank's part of the job
  // The step (Trainer::gradient_step) whose gradients the last command `grad --of TEXT` replaced by
  // the gradients of a text; empty before the first such command. All sessions that are attached to
  // the job share this value.
  std::shared_ptr<std::optional<int64_t>> text_gradients = {};
};

class ShardedView : public RankView {
 public:
  // Builds the model, and loads or initialises its parameters as the plan specifies. Collective.
  ShardedView(const job::Job& job, const runtime::World& world);
  // Creates a view of a running job. The job's trainer must outlive the view. Collective.
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
  std::string forward_next_batch(const Between& between) override;
  StepExperts last_experts() const override;
  std::vector<Json> recent_collectives() override;
  void set_compute_dtype(at::ScalarType dtype) override;
  DefaultTokenizer default_tokenizer() const override;
  void export_hf(const std::filesystem::path& folder, const HubExport& options,
                 const Between& between) override;

 private:
  const runtime::Group& group() const override { return mesh_.group("world"); }

  struct Place {
    size_t group = 0;  // index of the ParamGroup in the model
    size_t index = 0;  // index in ParamGroup::owned()
  };
  struct State {
    std::string parameter;
    std::string kind;  // name of an optimizer state, for example "exp_avg"; empty: the gradient
  };

  void add_parameters();
  void add_groups();
  void add_states();
  at::Tensor part_of(const Place& place, const State* state) const;
  void begin_training();
  // Returns the trainer of the running job. For a plan, returns trainer_, which is null before
  // begin_training().
  train::Trainer* trainer() const { return live_ ? live_->trainer : trainer_.get(); }
  int64_t steps() const { return live_ ? live_->steps() : steps_; }
  std::vector<int64_t> ranks_with(const HeldParameter& parameter) const;
  bool is_cut(const HeldParameter& parameter) const;
  std::vector<HeldShard> gathered_boxes(const HeldParameter& parameter) const;
  std::vector<size_t> sets_of(std::span<const HeldParameter* const> parameters) const;
  std::vector<std::string> names_in(const std::vector<size_t>& sets) const;

  config::Plan plan_;
  runtime::DeviceMesh mesh_;
  std::unique_ptr<parallel::ParallelModel> own_;  // the model; null if a trainer owns it
  std::unique_ptr<train::Trainer> trainer_;       // created by begin_training()
  parallel::ParallelModel* model_;
  std::optional<LiveJob> live_;
  std::string weights_;  // description of the origin of the parameter values
  bool fresh_ = false;   // whether the parameters still have their initial values
  std::deque<std::vector<HeldShard>> shards_;  // storage of HeldParameter::shards
  std::vector<HeldParameter> parameters_;
  // For each parameter name, where model_ stores this rank's first shard of the parameter.
  std::map<std::string, Place> places_;
  // Index of the set of each parameter. The parameters of a set are gathered together, and the
  // indices are equal on all ranks. groups_ maps an index to this rank's ParamGroups of the set.
  std::map<std::string, size_t> set_of_;
  bool by_units_ = false;  // whether a set is an FSDP unit; otherwise it is a ParamGroup
  std::map<size_t, std::vector<parallel::ParamGroup*>> groups_;
  std::map<std::string, const layout::ParameterLayout*> layouts_;
  std::set<size_t> unsharded_;  // indices of the sets that the user unsharded
  // Full copies of the unsharded parameters that tp or ep shards. The tensor is undefined on ranks
  // that store no shard of the parameter.
  std::map<std::string, at::Tensor> whole_;
  std::vector<HeldParameter> states_;
  std::map<std::string, State> state_of_;
  std::string gradients_of_;
  int64_t steps_ = 0;                                        // number of steps that train() has run
  std::shared_ptr<runtime::RecentCollectives> collectives_;  // null for a running job
};

}  // namespace am::values
