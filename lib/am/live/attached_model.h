// Interface through which the attach server accesses the model of a running job.
//
//   server.open(live::model_of(trainer, run));   // a job that automesh trains
//
// A program that trains with another framework describes its own tensors instead: see program.h.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "am/train/trainer.h"
#include "am/values/parameter_view.h"

namespace am::live {

class AttachedModel {
 public:
  virtual ~AttachedModel() = default;

  // Returns a view of the model for one client. `steps` returns the number of finished steps.
  // Collective.
  virtual std::unique_ptr<values::ParameterView> view(std::function<int64_t()> steps) = 0;
  // Frees all parameters that commands have gathered. Must be called before the next step, because
  // a step changes the values of parameters.
  virtual void release() = 0;
  // Returns the compute device.
  virtual c10::Device device() const = 0;
  // Returns the number of steps that were finished when the job started or resumed.
  virtual int64_t first_step() const = 0;
  // Returns the number of steps after which the job ends; 0 if the number is unknown.
  virtual int64_t max_steps() const = 0;
  // Returns the name of the phase with which a step begins; a string literal.
  virtual const char* first_phase() const { return "forward"; }
  // Throws Error(kUsage) if commands cannot save checkpoints or set the learning rate.
  virtual void require_changeable() const {}
  // Sets optimizer.lr, the peak of the learning-rate schedule, for the next steps. Returns the
  // previous value.
  virtual double set_learning_rate(double lr) = 0;
};

// Returns the model of a job that `trainer` trains; `run` is the path of its run folder. `trainer`
// must outlive the model.
std::unique_ptr<AttachedModel> model_of(train::Trainer& trainer, std::string run);

}  // namespace am::live
