#include "am/live/attached_model.h"

#include <utility>

#include "am/values/sharded_view.h"

namespace am::live {

namespace {

class TrainerModel final : public AttachedModel {
 public:
  TrainerModel(train::Trainer& trainer, std::string run)
      : trainer_(trainer), run_(std::move(run)) {}

  std::unique_ptr<values::ParameterView> view(std::function<int64_t()> steps) override {
    return std::make_unique<values::ShardedView>(
        values::LiveJob{run_, std::move(steps), &trainer_, text_gradients_});
  }

  // Reshards all FSDP units, including units that a session gathered before the session ended.
  void release() override {
    for (parallel::ParamGroup* group : trainer_.model().groups()) group->reshard();
  }

  c10::Device device() const override { return trainer_.model().mesh().device(); }
  int64_t first_step() const override { return trainer_.first_step(); }
  int64_t max_steps() const override { return trainer_.plan().train.max_steps; }

  double set_learning_rate(double lr) override {
    const double before = trainer_.plan().optimizer.lr;
    trainer_.set_learning_rate(lr);
    return before;
  }

 private:
  train::Trainer& trainer_;
  std::string run_;
  // Step whose gradients `grad --of` has overwritten: see values::LiveJob::text_gradients. All
  // clients' views share this value.
  std::shared_ptr<std::optional<int64_t>> text_gradients_ =
      std::make_shared<std::optional<int64_t>>();
};

}  // namespace

std::unique_ptr<AttachedModel> model_of(train::Trainer& trainer, std::string run) {
  return std::make_unique<TrainerModel>(trainer, std::move(run));
}

}  // namespace am::live
