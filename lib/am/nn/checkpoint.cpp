#include "am/nn/checkpoint.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "am/base/error.h"
#include "am/nn/adapter_dropout.h"
#include "am/nn/autocast.h"
#include "am/nn/weight_pass.h"

namespace am::nn {

namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// Autograd node of a segment. Backward computes the gradients of the segment's inputs from the
// gradients of its outputs.
class Replay : public torch::autograd::Node {
 public:
  Replay(Segment segment, const Tensors& inputs)
      : segment_(std::move(segment)),
        autocast_(current_autocast(inputs.front().device().type())),
        weight_pass_(current_weight_pass()),
        dropout_(current_dropout()) {
    for (const at::Tensor& input : inputs) inputs_.emplace_back(input, /*is_output=*/false);
  }

  Tensors run_ahead(const Tensors& inputs) {
    const at::NoGradGuard no_grad;
    products_.record();
    Tensors outputs = segment_(inputs, products_);
    // Replaces each output by a new tensor object with the same data. The segment may return an
    // input unchanged, and set_history() must not replace the input's autograd node.
    for (at::Tensor& output : outputs) output = output.variable_data();
    return outputs;
  }

  variable_list apply(variable_list&& gradients) override {
    Tensors leaves;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      leaves.push_back(inputs_[i].unpack().detach().requires_grad_(task_should_compute_output(i)));
    }
    Tensors roots = run_again(leaves);
    AM_ASSERT(roots.size() == gradients.size(), "both runs return equally many outputs");
    for (size_t i = roots.size(); i-- > 0;) {
      if (gradients[i].defined() && roots[i].requires_grad()) continue;
      roots.erase(roots.begin() + static_cast<std::ptrdiff_t>(i));
      gradients.erase(gradients.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (!roots.empty()) torch::autograd::backward(roots, gradients);
    variable_list of_inputs;
    for (const at::Tensor& leaf : leaves) of_inputs.push_back(leaf.grad());
    return of_inputs;
  }

  void release_variables() override {
    inputs_.clear();
    products_ = {};
  }

 private:
  Tensors run_again(const Tensors& leaves) {
    AM_ASSERT(!leaves.empty(), "backward through a checkpointed segment a second time");
    const at::AutoGradMode with_graph(true);
    const AutocastScope scope(autocast_);
    const WeightPassScope pass(weight_pass_);
    const DropoutScope dropout(dropout_);
    products_.replay();
    return segment_(leaves, products_);
  }

  Segment segment_;
  RecomputeTape products_;
  Autocast autocast_;
  WeightPassPtr weight_pass_;
  std::optional<DropoutPass> dropout_;
  std::vector<SavedVariable> inputs_;
};

}  // namespace

Tensors RecomputeTape::next(size_t count) {
  AM_ASSERT(turn_ + count <= values_.size(), "both runs read equally many values");
  const auto first = values_.begin() + static_cast<std::ptrdiff_t>(turn_);
  turn_ += count;
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

Tensors RecomputeTape::multiply(const Linear& linear, const at::Tensor& x,
                                const std::vector<Recompute>& again) {
  AM_ASSERT(again.size() == linear.outputs(), "each output of a product has one mode");
  if (run_ == Run::kSecond) {
    const Tensors known = next(again.size());
    const bool any = std::any_of(known.begin(), known.end(),
                                 [](const at::Tensor& value) { return value.defined(); });
    return linear.products(x, any ? known : Tensors());
  }
  Tensors outputs = linear.products(x);
  if (run_ == Run::kAlone) return outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const at::Tensor& y = outputs[i];
    switch (again[i]) {
      case Recompute::kRecompute:
        values_.emplace_back();
        break;
      case Recompute::kSave:
        values_.push_back(y);
        break;
      case Recompute::kOutputOnly:
        values_.push_back(at::zeros({}, y.options()).expand(y.sizes()));
        break;
    }
  }
  return outputs;
}

Tensors RecomputeTape::chosen(size_t count, const std::function<Tensors()>& choose) {
  if (run_ == Run::kSecond) return next(count);
  Tensors made = choose();
  AM_ASSERT(made.size() == count, "`choose` returns `count` tensors");
  if (run_ == Run::kFirst) values_.insert(values_.end(), made.begin(), made.end());
  return made;
}

void RecomputeTape::record() { run_ = Run::kFirst; }

void RecomputeTape::replay() {
  run_ = Run::kSecond;
  turn_ = 0;
}

Tensors checkpoint(Segment segment, const Tensors& inputs, bool trains) {
  const bool needed =
      trains || std::any_of(inputs.begin(), inputs.end(),
                            [](const at::Tensor& input) { return input.requires_grad(); });
  if (!at::GradMode::is_enabled() || !needed) {
    RecomputeTape products;
    return segment(inputs, products);
  }
  const std::shared_ptr<Replay> node(new Replay(std::move(segment), inputs),
                                     torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  Tensors outputs = node->run_ahead(inputs);
  torch::autograd::set_history(outputs, node);
  return outputs;
}

}  // namespace am::nn
