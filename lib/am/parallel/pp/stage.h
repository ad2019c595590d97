// One stage of a pipeline on this rank, with its micro-batches in flight.
//
//   Stage stage(model);
//   at::Tensor down = stage.forward(m, batch, hidden, divisor);
//   at::Tensor up = stage.backward(m, of_down);           // or backward_input now,
//   stage.backward_weight(m);                             // and this later
//
// From forward to backward a micro-batch keeps its input and the tensors that autograd saves, but
// not its output: backward begins at the output's edge in the graph.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <cstdint>
#include <map>

#include "am/nn/weight_pass.h"
#include "am/parallel/micro_batches.h"
#include "am/parallel/stage_model.h"

namespace am::parallel {

class Stage {
 public:
  // `model` must outlive this object.
  explicit Stage(StageModel& model) : model_(&model) {}

  bool is_first() const { return model_->range().embedding; }
  bool is_last() const { return model_->range().head; }
  bool is_whole() const { return is_first() && is_last(); }  // the stage is the whole model
  StageModel& model() const { return *model_; }

  // Returns the hidden states for the next stage, detached. On the last stage, returns the sum of
  // the cross-entropies of the labels. `hidden_BTD`: output of the previous stage; undefined on the
  // first stage. Backward differentiates the sum divided by `divisor`. Without grad mode, nothing
  // is kept for backward.
  at::Tensor forward(int64_t m, MicroBatch batch, const at::Tensor& hidden_BTD, double divisor);
  // backward computes all gradients of a micro-batch. backward_input computes only the gradients of
  // the stage's input and of vectors (such as norm weights); backward_weight computes the gradients
  // of matrices later. `of_output`: gradient of forward's result, undefined on the last stage.
  // backward and backward_input return the gradient of hidden_BTD, undefined on the first stage.
  at::Tensor backward(int64_t m, const at::Tensor& of_output);
  at::Tensor backward_input(int64_t m, const at::Tensor& of_output);
  void backward_weight(int64_t m);

  // Forgets the micro-batches in flight, for example of a pass that failed.
  void forget() { under_way_.clear(); }
  // Number of micro-batches whose forward has run and whose weight gradients are not yet computed.
  int64_t in_flight() const { return static_cast<int64_t>(under_way_.size()); }

 private:
  struct UnderWay {
    at::Tensor input;  // the stage's input, an autograd leaf; undefined on the first stage
    // The output's edge, at which backward begins; invalid if the output requires no gradient.
    torch::autograd::Edge output = {};
    at::Tensor of_loss = {};  // gradient of the loss, which is 1; defined only on the last stage
    nn::WeightPassPtr weights = {};
  };

  UnderWay& under_way(int64_t m);
  at::Tensor run_backward(UnderWay& batch, const at::Tensor& of_output);

  StageModel* model_;
  std::map<int64_t, UnderWay> under_way_;  // micro-batches in flight, by number
};

}  // namespace am::parallel
