// Interface of optimizers. An optimizer applies PyTorch's update rules to this rank's shards.
//
// The parameters are the flat tensors that this rank stores, one per ParamGroup. Optimizers update
// them in place. The state of an optimizer consists of its number of steps and of state tensors,
// which are laid out like the parameters and have PyTorch's names.
//
//   auto optimizer = make_optimizer(plan, model);    // from_plan.h
//   optimizer->step(gradients, learning_rate);
//   optimizer->state_of({.flat = 0, .offset = 128, .length = 64});   // "exp_avg", "exp_avg_sq"
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "am/layout/layout.h"

namespace am::optim {

// A range of a flat tensor. It contains one parameter or several adjacent parameters.
struct FlatRange {
  size_t flat = 0;  // index of the flat tensor
  int64_t offset = 0;
  int64_t length = 0;

  int64_t end() const { return offset + length; }
  bool contains(const FlatRange& other) const {
    return flat == other.flat && offset <= other.offset && other.end() <= end();
  }
  at::Tensor of(const std::vector<at::Tensor>& flats) const;
  at::Tensor of(const at::Tensor& flat) const { return flat.narrow(0, offset, length); }
};

// A range of adjacent parameters with equal options, which one kernel can update.
struct ParameterRun {
  FlatRange range;
  layout::OptimizerOptions options;
};

// Returns one run per flat tensor. Each run covers its whole flat tensor.
std::vector<ParameterRun> whole_runs(const std::vector<at::Tensor>& flats,
                                     const layout::OptimizerOptions& options);

struct StateTensor {
  std::string name;  // PyTorch's name, for example "exp_avg"
  at::Tensor value;  // state of the requested range; shares the optimizer's memory
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Multiplies the gradients by `factor`, in place, and then performs a step with the learning rate
  // `lr`. For parameters with a peak learning rate of their own, `lr` is scaled
  // (config::parameter_lr). `gradients`: one gradient per flat tensor; an undefined gradient leaves
  // the flat tensor's parameters and their state unchanged. Collective if the update rule needs
  // more than this rank's shards, as Muon's does.
  void step(const std::vector<at::Tensor>& gradients, double lr, double factor = 1.0);
  // steps() returns the number of completed steps. A run that resumes from a checkpoint restores
  // this number by set_steps().
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }

  // Performs step `number`, counted from 1; step() calls it. If scales() returns false, step() has
  // already multiplied the gradients, and `factor` is 1.
  virtual void update(const std::vector<at::Tensor>& gradients, double lr, int64_t number,
                      double factor) = 0;
  // Whether update(), instead of step(), multiplies the gradients by `factor`.
  virtual bool scales() const { return false; }
  // Returns the state tensors of one parameter, whose range in its flat tensor is `range`. Their
  // order is fixed per optimizer, for example "exp_avg" before "exp_avg_sq".
  virtual std::vector<StateTensor> state_of(const FlatRange& range) const = 0;
  // Exchanges the parameters and their moving average (averaged.h). Does nothing without an average
  // or before the first step.
  virtual void swap_average() {}

 private:
  int64_t steps_ = 0;
};

}  // namespace am::optim
