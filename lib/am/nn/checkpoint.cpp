#include "am/nn/checkpoint.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "am/base/error.h"
#include "am/nn/autocast.h"
#include "am/nn/fused/linear.h"

namespace am::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// x_..I, weight [O, I], value ..O -> ..O: fused::linear with a value that is known. Backward
// multiplies as its own does, so that the gradients are the same to the bit.
struct KnownProduct : torch::autograd::Function<KnownProduct> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& value, const std::optional<at::Tensor>& bias) {
    context->save_for_backward({weight.requires_grad() ? x : at::Tensor(), weight});
    context->saved_data["biased"] = bias.has_value();
    return value;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const fused::LinearNeeds needs = {context->needs_input_grad(0), context->needs_input_grad(1),
                                      context->saved_data["biased"].toBool()};
    const auto of = fused::linear_gradients(gradients[0], saved[0], saved[1], needs);
    return {of.of_x, of.of_weight, at::Tensor(), of.of_bias};
  }
};

// The casts are those that autocast makes; without it they do nothing.
at::Tensor known_product(const Linear& linear, const at::Tensor& x, const at::Tensor& value) {
  const at::ScalarType dtype = value.scalar_type();
  std::optional<at::Tensor> bias;
  if (linear.bias && !linear.bias_after_output) bias = linear.bias->value.to(dtype);
  return KnownProduct::apply(x.to(dtype), linear.weight->value.to(dtype), value, bias);
}

// The segment in the graph: one gradient in for each output, one out for each input.
class Replay : public torch::autograd::Node {
 public:
  Replay(Segment segment, const Tensors& inputs)
      : segment_(std::move(segment)), autocast_(current_autocast(inputs.front().device().type())) {
    for (const at::Tensor& input : inputs) inputs_.emplace_back(input, /*is_output=*/false);
  }

  Tensors run_ahead(const Tensors& inputs) {
    const at::NoGradGuard no_grad;
    products_.record();
    Tensors outputs = segment_(inputs, products_);
    // Tensors of their own, also where the segment returns an input.
    for (at::Tensor& output : outputs) output = output.variable_data();
    return outputs;
  }

  variable_list apply(variable_list&& gradients) override {
    Tensors leaves;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      leaves.push_back(inputs_[i].unpack().detach().requires_grad_(task_should_compute_output(i)));
    }
    Tensors roots = run_again(leaves);
    AM_ASSERT(roots.size() == gradients.size(), "a segment returns the same both times");
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
    products_.replay();
    return segment_(leaves, products_);
  }

  Segment segment_;
  Products products_;
  Autocast autocast_;
  std::vector<SavedVariable> inputs_;
};

}  // namespace

at::Tensor Products::next(const Linear& linear, const at::Tensor& x) {
  AM_ASSERT(turn_ < values_.size(), "a segment multiplies the same both times");
  return known_product(linear, x, values_[turn_++]);
}

at::Tensor Products::kept(const Linear& linear, const at::Tensor& x) {
  if (run_ == Run::kSecond) return next(linear, x);
  at::Tensor y = linear.product(x);
  if (run_ == Run::kFirst) values_.push_back(y);
  return y;
}

at::Tensor Products::returned(const Linear& linear, const at::Tensor& x) {
  if (run_ == Run::kSecond) return next(linear, x);
  at::Tensor y = linear.product(x);
  if (run_ == Run::kFirst) values_.push_back(at::zeros({}, y.options()).expand(y.sizes()));
  return y;
}

void Products::record() { run_ = Run::kFirst; }

void Products::replay() {
  run_ = Run::kSecond;
  turn_ = 0;
}

Tensors checkpoint(Segment segment, const Tensors& inputs, bool trains) {
  const bool needed =
      trains || std::any_of(inputs.begin(), inputs.end(),
                            [](const at::Tensor& input) { return input.requires_grad(); });
  if (!at::GradMode::is_enabled() || !needed) {
    Products products;
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
