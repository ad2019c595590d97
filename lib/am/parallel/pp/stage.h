// One stage of a pipeline on this rank, and the micro-batches that are under way in it.
//
//   Stage stage(model);
//   at::Tensor down = stage.forward(m, batch, hidden, divisor);
//   at::Tensor up = stage.backward(m, of_down);           // or backward_input now,
//   stage.backward_weight(m);                             // and this later
//
// Kept of a micro-batch from its forward to its backward is its input and what autograd saves, and
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
  // The model of the stage, which must outlive this.
  explicit Stage(StageModel& model) : model_(&model) {}

  bool is_first() const { return model_->range().embedding; }
  bool is_last() const { return model_->range().head; }
  StageModel& model() const { return *model_; }

  // `hidden_BTD`: what the stage before gave, undefined on the first. What the next one goes on
  // from, without a graph; on the last stage the sum of the label cross-entropies, whose backward
  // is that of the sum over `divisor`. Nothing is kept without grad mode.
  at::Tensor forward(int64_t m, MicroBatch batch, const at::Tensor& hidden_BTD, double divisor);
  // All of a micro-batch's gradients, or those of its input and of vectors alone, and then those of
  // matrices. `of_output`: the gradient of what forward gave, undefined on the last stage. Gives
  // the gradient of hidden_BTD, undefined on the first stage.
  at::Tensor backward(int64_t m, const at::Tensor& of_output);
  at::Tensor backward_input(int64_t m, const at::Tensor& of_output);
  void backward_weight(int64_t m);

  // Micro-batches whose forward has run and whose weights wait for their gradients.
  int64_t in_flight() const { return static_cast<int64_t>(under_way_.size()); }

 private:
  struct UnderWay {
    at::Tensor input;                   // a leaf; undefined on the first stage
    torch::autograd::Edge output = {};  // without a function: nothing before it trains
    at::Tensor of_loss = {};            // on the last stage: one
    nn::WeightPassPtr weights = {};
  };

  UnderWay& under_way(int64_t m);
  at::Tensor run_backward(UnderWay& batch, const at::Tensor& of_output);

  StageModel* model_;
  std::map<int64_t, UnderWay> under_way_;  // by micro-batch
};

}  // namespace am::parallel
