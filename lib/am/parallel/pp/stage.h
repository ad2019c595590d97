// One pipeline stage on this rank, and the state of the stage's micro-batches in flight.
//
//   Stage stage(model);
//   at::Tensor down = stage.forward(m, batch, hidden, divisor);
//   at::Tensor up = stage.backward(m, of_down);           // or backward_input(m, of_down)
//   stage.backward_weight(m);                             // only after backward_input()
//
// A micro-batch in flight keeps the stage's input and the tensors that autograd saves, but not the
// stage's output: backward begins at the output's autograd edge.
//
// Legend: B sequences of a micro-batch, T positions of each sequence, D hidden size.
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

  // Runs the forward of a micro-batch. Returns the hidden states for the next stage, detached; on
  // the last stage, returns the sum of the labels' cross-entropies instead. `m` identifies the
  // micro-batch in the calls of backward. `hidden_BTD`: output of the previous stage, for this
  // rank's part of T if sequences are sharded; undefined on the first stage. Backward
  // differentiates the sum divided by `divisor`. Without grad mode, the stage keeps nothing for
  // backward.
  at::Tensor forward(int64_t m, MicroBatch batch, const at::Tensor& hidden_BTD, double divisor);
  // backward() computes all gradients of a micro-batch. backward_input() computes the gradients of
  // the stage's input, of vectors (such as norm weights) and of adapters (LoRA); backward_weight(),
  // called later, computes the gradients of the remaining matrices. `of_output`: gradient of
  // forward's result; undefined on the last stage. backward() and backward_input() return the
  // gradient of hidden_BTD; undefined on the first stage.
  at::Tensor backward(int64_t m, const at::Tensor& of_output);
  at::Tensor backward_input(int64_t m, const at::Tensor& of_output);
  void backward_weight(int64_t m);

  // Drops the micro-batches in flight, for example after a pass that failed.
  void forget() { under_way_.clear(); }
  // Returns the number of micro-batches whose forward has run and whose weight gradients are not
  // yet computed.
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
