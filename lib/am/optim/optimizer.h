// What updates the parameters: the seam between training and PyTorch's update rules.
//
// Parameters are given as the flat tensors that this rank stores, one a group of parameters, and
// are updated in place. What an optimizer remembers of a parameter are tensors laid out like it,
// under PyTorch's names: with those alone, and the number of steps, it is saved and resumed.
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

// Elements of one of the flat tensors: those of a parameter, or of several neighbours.
struct FlatRange {
  size_t flat = 0;
  int64_t offset = 0;
  int64_t length = 0;

  int64_t end() const { return offset + length; }
  at::Tensor of(const std::vector<at::Tensor>& flats) const;
  at::Tensor of(const at::Tensor& flat) const { return flat.narrow(0, offset, length); }
};

// Neighbours that are updated alike.
struct ParameterRun {
  FlatRange range;
  bool decays = true;
};

// One run a flat tensor, all of it.
std::vector<ParameterRun> whole_runs(const std::vector<at::Tensor>& flats);

struct StateTensor {
  std::string name;  // "exp_avg"
  at::Tensor value;  // [length of the range], of the optimizer's own
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // `gradients` parallel to the flat tensors; an undefined one leaves its parameters and their
  // state as they are. They are multiplied by `factor` first, in place. Collective where the update
  // rule needs more than this rank's part.
  void step(const std::vector<at::Tensor>& gradients, double lr, double factor = 1.0);
  // Finished steps; set when a checkpoint is read.
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }

  // A step whose number is given, from 1. `factor` is 1 unless scales() says true.
  virtual void update(const std::vector<at::Tensor>& gradients, double lr, int64_t number,
                      double factor) = 0;
  // Whether update() multiplies gradients by the factor in the pass that it makes anyway.
  virtual bool scales() const { return false; }
  // What is remembered of a range of one parameter, in the order of the names.
  virtual std::vector<StateTensor> state_of(const FlatRange& range) const = 0;

 private:
  int64_t steps_ = 0;
};

}  // namespace am::optim
