// Interface of optimizers, which apply PyTorch's update rules to this rank's shards.
//
// Parameters are the flat tensors that this rank stores, one per parameter group, and are updated
// in place. An optimizer's state is its number of steps, and tensors laid out like the parameters,
// under PyTorch's names.
//
//   auto optimizer = make_optimizer(plan, model);    // from_plan.h
//   optimizer->step(gradients, learning_rate);
//   optimizer->state_of({.flat = 0, .offset = 128, .length = 64});   // "exp_avg", "exp_avg_sq"
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace am::optim {

// A range of a flat tensor: one parameter, or several adjacent parameters.
struct FlatRange {
  size_t flat = 0;
  int64_t offset = 0;
  int64_t length = 0;

  int64_t end() const { return offset + length; }
  at::Tensor of(const std::vector<at::Tensor>& flats) const;
  at::Tensor of(const at::Tensor& flat) const { return flat.narrow(0, offset, length); }
};

// Adjacent parameters with equal options.
struct ParameterRun {
  FlatRange range;
  bool decays = true;
};

// Returns one run per flat tensor, covering all of it.
std::vector<ParameterRun> whole_runs(const std::vector<at::Tensor>& flats);

struct StateTensor {
  std::string name;  // PyTorch's name, for example "exp_avg"
  at::Tensor value;  // this state of the requested parameter; shares the optimizer's memory
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Performs a step. `gradients` has one gradient per flat tensor. If a gradient is undefined, the
  // tensor's parameters and their state stay unchanged. Gradients are first multiplied by `factor`,
  // in place. Collective if the update rule needs more than this rank's shards.
  void step(const std::vector<at::Tensor>& gradients, double lr, double factor = 1.0);
  // Number of completed steps; set when a checkpoint is loaded.
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }

  // Performs step `number`, counted from 1. step() passes a `factor` other than 1 only if scales()
  // returns true.
  virtual void update(const std::vector<at::Tensor>& gradients, double lr, int64_t number,
                      double factor) = 0;
  // Whether update() multiplies the gradients by `factor` itself.
  virtual bool scales() const { return false; }
  // Returns the state tensors of a range of one parameter, in the optimizer's order of names.
  virtual std::vector<StateTensor> state_of(const FlatRange& range) const = 0;

 private:
  int64_t steps_ = 0;
};

}  // namespace am::optim
