#include "am/nn/experts/stacked.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>

#include "am/nn/fused/gated.h"
#include "am/nn/fused/product.h"
#include "am/nn/weight_pass.h"

namespace am::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Returns the tensors [first, first + count) of `all`.
at::TensorList range_of(const variable_list& all, size_t first, size_t count) {
  return at::TensorList(all).slice(first, count);
}

// Location of a matrix in a stack [E, I, O] or, without `in_out`, [E, O, I], with E experts, I
// inputs and O outputs: columns [first, first + length) of the matrix [I, O] of expert e.
struct Place {
  int64_t e = 0;
  int64_t first = 0;
  int64_t length = 0;
  bool in_out = true;
};

// Returns the matrix at `place` of a stack: a view [I, length].
at::Tensor matrix_at(const at::Tensor& stack, const Place& place) {
  const at::Tensor matrix = stack.select(0, place.e);
  return (place.in_out ? matrix : matrix.t()).narrow(1, place.first, place.length);
}

// Returns the number of columns of the stack's matrices [I, O].
int64_t columns_of(at::IntArrayRef shape, bool in_out) { return shape[in_out ? 2 : 1]; }

// Returns x_RI times the matrix at `place`, plus its bias if there is one: [R, length].
at::Tensor multiplied(const at::Tensor& x_RI, const at::Tensor& stack,
                      const std::optional<at::Tensor>& bias_EO, const Place& place) {
  at::Tensor y_RO = fused::product(x_RI, matrix_at(stack, place));
  if (bias_EO) y_RO.add_(bias_EO->select(0, place.e).narrow(0, place.first, place.length));
  return y_RO;
}

// Gradients of a stack's parameters, filled matrix by matrix.
class StackGradients {
 public:
  StackGradients(at::IntArrayRef shape, const at::TensorOptions& options, bool in_out,
                 bool of_weight, bool of_bias) {
    if (of_weight) of_stack = at::empty(shape, options);
    if (of_bias) of_bias_EO = at::empty({shape[0], columns_of(shape, in_out)}, options);
  }

  // Sets the gradients of the matrix at `place` and of its bias from the input x_RI and the
  // gradient of_y_RO of the output: x_RI^T of_y_RO, and the sum of the rows of of_y_RO.
  void set(const Place& place, const at::Tensor& x_RI, const at::Tensor& of_y_RO) {
    if (of_stack.defined()) {
      const at::Tensor of_IO = matrix_at(of_stack, place);
      if (x_RI.size(0) == 0) {
        of_IO.zero_();
      } else if (place.in_out) {
        of_IO.copy_(fused::product(x_RI.t(), of_y_RO));
      } else {
        of_IO.t().copy_(fused::product(of_y_RO.t(), x_RI));
      }
    }
    if (!of_bias_EO.defined()) return;
    of_bias_EO.select(0, place.e).narrow(0, place.first, place.length).copy_(of_y_RO.sum(0));
  }

  at::Tensor of_stack, of_bias_EO;  // undefined if not requested
};

// Returns a function that computes the gradient of a stack later, from x_RI of every expert and
// of_y_RO of every matrix; each expert has of_y.size() / x.size() matrices. The function does not
// capture the stack itself, because the stack's values may be freed before the call.
WeightPass::Product stack_product(const at::Tensor& stack, bool in_out, variable_list x,
                                  variable_list of_y) {
  for (at::Tensor& rows : x) rows = rows.detach();
  return [shape = stack.sizes().vec(), options = stack.options(), in_out, x = std::move(x),
          of_y = std::move(of_y)] {
    StackGradients of(shape, options, in_out, /*of_weight=*/true, /*of_bias=*/false);
    const size_t parts = of_y.size() / x.size();
    for (size_t i = 0; i < of_y.size(); ++i) {
      const int64_t length = of_y[i].size(1);
      of.set({static_cast<int64_t>(i / parts), static_cast<int64_t>(i % parts) * length, length,
              in_out},
             x[i / parts], of_y[i]);
    }
    return of.of_stack;
  };
}

struct WidenWays {
  bool in_out = true;
  size_t parts = 1;  // 2: gate and up are separate products
};

// Multiplies each expert's rows with its gate-and-up matrix. Returns `parts` products per expert:
// one product in which gate and up are interleaved, or one for gate followed by one for up.
struct StackWiden : torch::autograd::Function<StackWiden> {
  static variable_list forward(AutogradContext* context, at::TensorList rows,
                               const at::Tensor& stack, const std::optional<at::Tensor>& bias_EW,
                               const WidenWays& ways) {
    variable_list saved = {stack};
    // Saves the rows only for the weight's gradient: no other gradient reads them.
    if (stack.requires_grad()) saved.insert(saved.end(), rows.begin(), rows.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["in_out"] = ways.in_out;
    context->saved_data["parts"] = static_cast<int64_t>(ways.parts);
    context->saved_data["biased"] = bias_EW.has_value();
    keep_weight_pass(*context);
    const auto parts = static_cast<int64_t>(ways.parts);
    const int64_t length = columns_of(stack.sizes(), ways.in_out) / parts;
    variable_list wide;
    for (size_t e = 0; e < rows.size(); ++e) {
      for (int64_t part = 0; part < parts; ++part) {
        wide.push_back(multiplied(rows[e], stack, bias_EW,
                                  {static_cast<int64_t>(e), part * length, length, ways.in_out}));
      }
    }
    return wide;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::NoGradGuard no_grad;
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& stack = saved[0];
    auto& data = context->saved_data;
    const bool in_out = data["in_out"].toBool();
    const auto parts = static_cast<size_t>(data["parts"].toInt());
    const size_t count = gradients.size() / parts;
    const bool of_rows = context->needs_input_grad(0);
    const bool of_weight = context->needs_input_grad(count);
    const bool of_bias = data["biased"].toBool() && context->needs_input_grad(count + 1);
    WeightPass* pass = of_weight ? postponing_pass(*context) : nullptr;
    StackGradients of(stack.sizes(), stack.options(), in_out, of_weight && pass == nullptr,
                      of_bias);
    const bool has_rows = saved.size() > 1;
    variable_list all(count + 3);
    for (size_t i = 0; i < gradients.size(); ++i) {
      const size_t e = i / parts;
      const int64_t length = gradients[i].size(1);
      const Place place = {static_cast<int64_t>(e), static_cast<int64_t>(i % parts) * length,
                           length, in_out};
      of.set(place, has_rows ? saved[1 + e] : at::Tensor(), gradients[i]);
      if (!of_rows) continue;
      const at::Tensor of_part = fused::product(gradients[i], matrix_at(stack, place).t());
      all[e] = all[e].defined() ? all[e].add_(of_part) : of_part;
    }
    if (pass != nullptr) {
      pass->owe(stack, stack_product(stack, in_out, range_of(saved, 1, count).vec(), gradients));
    }
    all[count] = of.of_stack;
    all[count + 1] = of.of_bias_EO;
    return all;
  }
};

struct StackWays {
  fused::Clamp clamp;
  model::Activation activation = model::Activation::kClampedSilu;
  bool in_out = true;
  bool unread = false;

  // Returns the number of tensors per expert that hold gate and up.
  size_t parts() const { return activation == model::Activation::kClampedSilu ? 1 : 2; }
  // Returns the activation of expert e, whose gate and up are among `wide`.
  at::Tensor active(at::TensorList wide, size_t e) const {
    if (parts() == 1) return fused::clamped(wide[e], clamp);
    return fused::gated(wide[2 * e], wide[2 * e + 1], activation);
  }
};

// Computes weight * (activation(gate, up) down + bias) for every expert. `wide` is the result of
// StackWiden.
struct StackDown : torch::autograd::Function<StackDown> {
  static variable_list forward(AutogradContext* context, at::TensorList wide,
                               at::TensorList weights, const at::Tensor& down,
                               const std::optional<at::Tensor>& bias_ED, const StackWays& ways) {
    variable_list saved = {down, bias_ED.value_or(at::Tensor())};
    saved.insert(saved.end(), wide.begin(), wide.end());
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["alpha"] = ways.clamp.alpha;
    context->saved_data["limit"] = ways.clamp.limit;
    context->saved_data["activation"] = static_cast<int64_t>(ways.activation);
    context->saved_data["in_out"] = ways.in_out;
    keep_weight_pass(*context);
    const int64_t columns = columns_of(down.sizes(), ways.in_out);
    variable_list rows;
    for (size_t e = 0; e < weights.size(); ++e) {
      if (ways.unread) {
        rows.push_back(at::zeros({}, wide[e].options()).expand({weights[e].size(0), columns}));
        continue;
      }
      rows.push_back(multiplied(ways.active(wide, e), down, bias_ED,
                                {static_cast<int64_t>(e), 0, columns, ways.in_out}));
      rows.back().mul_(weights[e].unsqueeze(1));
    }
    return rows;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::NoGradGuard no_grad;
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &down = saved[0], &bias_ED = saved[1];
    auto& data = context->saved_data;
    const StackWays ways = {
        .clamp = {data["alpha"].toDouble(), data["limit"].toDouble()},
        .activation = static_cast<model::Activation>(data["activation"].toInt()),
        .in_out = data["in_out"].toBool()};
    const size_t count = gradients.size(), wides = count * ways.parts();
    const at::TensorList wide = range_of(saved, 2, wides),
                         weights = range_of(saved, 2 + wides, count);
    const int64_t columns = columns_of(down.sizes(), ways.in_out);
    const bool of_wide = context->needs_input_grad(0);
    const bool of_weight = context->needs_input_grad(wides);
    const bool of_down = context->needs_input_grad(wides + count);
    const bool of_bias = bias_ED.defined() && context->needs_input_grad(wides + count + 1);
    WeightPass* pass = of_down ? postponing_pass(*context) : nullptr;
    StackGradients of(down.sizes(), down.options(), ways.in_out, of_down && pass == nullptr,
                      of_bias);
    variable_list active, of_rows;  // operands of a postponed gradient of the matrices
    variable_list all(wides + count + 3);
    for (size_t i = 0; i < count; ++i) {
      const Place place = {static_cast<int64_t>(i), 0, columns, ways.in_out};
      at::Tensor active_RF = ways.active(wide, i);
      at::Tensor of_active_RF = fused::product(gradients[i], matrix_at(down, place).t());
      const at::Tensor weight_R1 = weights[i].unsqueeze(1);
      if (of_weight) {  // the weight's gradient: <gradient of the output, active down + bias>
        const at::ScalarType dtype = weights[i].scalar_type();
        all[wides + i] = at::mul(of_active_RF, active_RF).sum(-1, false, dtype);
        if (bias_ED.defined()) all[wides + i].add_(gradients[i].mv(bias_ED.select(0, place.e)));
      }
      if (of_wide) {
        of_active_RF.mul_(weight_R1);
        if (ways.parts() == 1) {
          all[i] = fused::clamped_gradient(of_active_RF, wide[i], ways.clamp);
        } else {
          auto of_factors =
              fused::gated_gradients(of_active_RF, wide[2 * i], wide[2 * i + 1], ways.activation);
          all[2 * i] = std::move(of_factors.of_gate);
          all[2 * i + 1] = std::move(of_factors.of_up);
        }
      }
      of_active_RF.reset();
      // The gradients of matrix and bias both read the output's gradient, multiplied by the routing
      // weight.
      if (!of_down && !of_bias) continue;
      const at::Tensor of_row = gradients[i] * weight_R1.to(gradients[i].scalar_type());
      of.set(place, active_RF, of_row);
      if (pass == nullptr) continue;
      active.push_back(active_RF);
      of_rows.push_back(of_row);
    }
    if (pass != nullptr) {
      pass->owe(down, stack_product(down, ways.in_out, std::move(active), std::move(of_rows)));
    }
    all[wides + count] = of.of_stack;
    all[wides + count + 1] = of.of_bias_EO;
    return all;
  }
};

// Returns the bias in `dtype`, or nullopt if the layer has no bias.
std::optional<at::Tensor> bias_of(const Linear& linear, at::ScalarType dtype) {
  if (!linear.bias) return std::nullopt;
  return linear.bias->value.to(dtype);
}

}  // namespace

std::vector<at::Tensor> StackedExperts::products(const std::vector<at::Tensor>& rows,
                                                 const std::vector<at::Tensor>& weights,
                                                 bool unread) const {
  const at::ScalarType dtype = rows.front().scalar_type();
  const StackWays ways = {clamp, activation, down.in_out, unread};
  const std::vector<at::Tensor> wide =
      StackWiden::apply(at::TensorList(rows), gate_up.weight->value.to(dtype),
                        bias_of(gate_up, dtype), WidenWays{gate_up.in_out, ways.parts()});
  return StackDown::apply(at::TensorList(wide), at::TensorList(weights),
                          down.weight->value.to(dtype), bias_of(down, dtype), ways);
}

}  // namespace am::nn
