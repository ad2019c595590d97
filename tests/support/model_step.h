// Runs one forward and backward pass of a saved model on a rank, to compare layouts.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>

#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/frameworks/open_weights.h"
#include "am/parallel/parallel_model.h"
#include "support/plans.h"

namespace am::test {

// Maps "logits" to the logits, and "unit NAME" to the part of the unit's flat gradient that this
// rank stores.
using StepResult = std::map<std::string, at::Tensor>;

// Loads the weights of tests/data/hf/FAMILY, and runs the family's reference batch.
inline StepResult step_of(parallel::ParallelModel& model, const std::string& family) {
  const std::string folder = data_path(cat("hf/", family));
  checkpoint::load(model, *frameworks::open_tensor_source(folder + "/model.safetensors"));
  const auto reference = frameworks::open_tensor_source(folder + "/reference.safetensors");
  const at::Tensor logits = model.forward(checkpoint::read_all(*reference, "input_ids"));
  model.loss_sum(logits, checkpoint::read_all(*reference, "labels")).backward();
  model.data_parallel().finish_backward();
  StepResult result = {{"logits", logits.detach().clone()}};
  for (const auto& group : model.data_parallel().groups()) {
    result[cat("unit ", group->name())] = group->flat_grad().clone();
  }
  return result;
}

inline bool same_bits(const StepResult& a, const StepResult& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end() || !at::equal(tensor, other->second)) return false;
  }
  return true;
}

}  // namespace am::test
