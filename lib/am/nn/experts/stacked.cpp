#include "am/nn/experts/stacked.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

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

// Returns x_RI times matrix `e` of weight_EIO, plus its bias: [R, O].
at::Tensor multiplied(const at::Tensor& x_RI, const at::Tensor& weight_EIO,
                      const at::Tensor& bias_EO, int64_t e) {
  at::Tensor y_RO = fused::product(x_RI, weight_EIO.select(0, e));
  return y_RO.add_(bias_EO.select(0, e));
}

// Gradients of a stack's parameters, filled expert by expert.
class StackGradients {
 public:
  StackGradients(at::IntArrayRef shape_EIO, const at::TensorOptions& options, bool of_weight,
                 bool of_bias) {
    if (of_weight) of_weight_EIO = at::empty(shape_EIO, options);
    if (of_bias) of_bias_EO = at::empty({shape_EIO[0], shape_EIO[2]}, options);
  }

  // Sets expert e's gradients: x_RI^T of_y_RO for the matrix, and the sum of of_y's rows for the
  // bias.
  void set(int64_t e, const at::Tensor& x_RI, const at::Tensor& of_y_RO) {
    if (of_weight_EIO.defined()) {
      const at::Tensor of_IO = of_weight_EIO.select(0, e);
      if (x_RI.size(0) == 0) {
        of_IO.zero_();
      } else {
        of_IO.copy_(fused::product(x_RI.t(), of_y_RO));
      }
    }
    if (of_bias_EO.defined()) of_bias_EO.select(0, e).copy_(of_y_RO.sum(0));
  }

  at::Tensor of_weight_EIO, of_bias_EO;  // undefined if not requested
};

// Returns a function that computes the gradient of a stack of matrices later, from x_RI and of_y_RO
// of every expert. It captures only the weight's shape, because the weight's values may be freed by
// then.
WeightPass::Product stack_product(const at::Tensor& weight_EIO, variable_list x,
                                  variable_list of_y) {
  for (at::Tensor& rows : x) rows = rows.detach();
  return [shape = weight_EIO.sizes().vec(), options = weight_EIO.options(), x = std::move(x),
          of_y = std::move(of_y)] {
    StackGradients of(shape, options, /*of_weight=*/true, /*of_bias=*/false);
    for (size_t e = 0; e < x.size(); ++e) of.set(static_cast<int64_t>(e), x[e], of_y[e]);
    return of.of_weight_EIO;
  };
}

// Multiplies each expert's rows with its gate-and-up matrix.
struct StackWiden : torch::autograd::Function<StackWiden> {
  static variable_list forward(AutogradContext* context, at::TensorList rows,
                               const at::Tensor& weight_EDW, const at::Tensor& bias_EW) {
    variable_list saved = {weight_EDW};
    // Saves the rows only for the weight's gradient: no other gradient reads them.
    if (weight_EDW.requires_grad()) saved.insert(saved.end(), rows.begin(), rows.end());
    context->save_for_backward(std::move(saved));
    keep_weight_pass(*context);
    variable_list wide;
    for (size_t e = 0; e < rows.size(); ++e) {
      wide.push_back(multiplied(rows[e], weight_EDW, bias_EW, static_cast<int64_t>(e)));
    }
    return wide;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::NoGradGuard no_grad;
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& weight_EDW = saved[0];
    const size_t count = gradients.size();
    const bool of_rows = context->needs_input_grad(0);
    const bool of_weight = context->needs_input_grad(count);
    WeightPass* pass = of_weight ? postponing_pass(*context) : nullptr;
    StackGradients of(weight_EDW.sizes(), weight_EDW.options(), of_weight && pass == nullptr,
                      context->needs_input_grad(count + 1));
    const bool has_rows = saved.size() > 1;
    variable_list all(count + 2);
    for (size_t i = 0; i < count; ++i) {
      const auto e = static_cast<int64_t>(i);
      of.set(e, has_rows ? saved[1 + i] : at::Tensor(), gradients[i]);
      if (of_rows) all[i] = fused::product(gradients[i], weight_EDW.select(0, e).t());
    }
    if (pass != nullptr) {
      pass->owe(weight_EDW, stack_product(weight_EDW, range_of(saved, 1, count).vec(), gradients));
    }
    all[count] = of.of_weight_EIO;
    all[count + 1] = of.of_bias_EO;
    return all;
  }
};

struct StackWays {
  fused::Clamp clamp;
  bool unread = false;
};

// Computes weight * (clamped(pairs) down + bias) for every expert.
struct StackDown : torch::autograd::Function<StackDown> {
  static variable_list forward(AutogradContext* context, at::TensorList pairs,
                               at::TensorList weights, const at::Tensor& down_EFD,
                               const at::Tensor& bias_ED, const StackWays& ways) {
    variable_list saved = {down_EFD, bias_ED};
    saved.insert(saved.end(), pairs.begin(), pairs.end());
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["alpha"] = ways.clamp.alpha;
    context->saved_data["limit"] = ways.clamp.limit;
    keep_weight_pass(*context);
    variable_list rows;
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (ways.unread) {
        rows.push_back(
            at::zeros({}, pairs[i].options()).expand({pairs[i].size(0), down_EFD.size(2)}));
        continue;
      }
      rows.push_back(multiplied(fused::clamped(pairs[i], ways.clamp), down_EFD, bias_ED,
                                static_cast<int64_t>(i)));
      rows.back().mul_(weights[i].unsqueeze(1));
    }
    return rows;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::NoGradGuard no_grad;
    const variable_list saved = context->get_saved_variables();
    const size_t count = gradients.size();
    const at::Tensor &down_EFD = saved[0], &bias_ED = saved[1];
    const at::TensorList pairs = range_of(saved, 2, count),
                         weights = range_of(saved, 2 + count, count);
    const fused::Clamp clamp = {context->saved_data["alpha"].toDouble(),
                                context->saved_data["limit"].toDouble()};
    const bool of_weight = context->needs_input_grad(count);
    const bool of_pairs = context->needs_input_grad(0);
    const bool of_down = context->needs_input_grad(2 * count);
    WeightPass* pass = of_down ? postponing_pass(*context) : nullptr;
    StackGradients of(down_EFD.sizes(), down_EFD.options(), of_down && pass == nullptr,
                      context->needs_input_grad(2 * count + 1));
    variable_list active, of_rows;  // operands of a postponed gradient of the matrices
    variable_list all(2 * count + 3);
    for (size_t i = 0; i < count; ++i) {
      const auto e = static_cast<int64_t>(i);
      at::Tensor active_RF = fused::clamped(pairs[i], clamp);
      at::Tensor of_active_RF = fused::product(gradients[i], down_EFD.select(0, e).t());
      const at::Tensor weight_R1 = weights[i].unsqueeze(1);
      if (of_weight) {  // the gradient is <of y, active down + bias>
        const at::ScalarType wide = weights[i].scalar_type();
        all[count + i] = at::mul(of_active_RF, active_RF).sum(-1, false, wide);
        all[count + i].add_(gradients[i].mv(bias_ED.select(0, e)));
      }
      if (of_pairs) {
        of_active_RF.mul_(weight_R1);
        all[i] = fused::clamped_gradient(of_active_RF, pairs[i], clamp);
      }
      of_active_RF.reset();
      // The gradients of matrix and bias both read the output's gradient times the routing weight.
      if (!of_down && !of.of_bias_EO.defined()) continue;
      const at::Tensor of_row = gradients[i] * weight_R1.to(gradients[i].scalar_type());
      of.set(e, active_RF, of_row);
      if (pass == nullptr) continue;
      active.push_back(active_RF);
      of_rows.push_back(of_row);
    }
    if (pass != nullptr) {
      pass->owe(down_EFD, stack_product(down_EFD, std::move(active), std::move(of_rows)));
    }
    all[2 * count] = of.of_weight_EIO;
    all[2 * count + 1] = of.of_bias_EO;
    return all;
  }
};

}  // namespace

std::vector<at::Tensor> StackedExperts::products(const std::vector<at::Tensor>& rows,
                                                 const std::vector<at::Tensor>& weights,
                                                 bool unread) const {
  const at::ScalarType dtype = rows.front().scalar_type();
  const std::vector<at::Tensor> pairs = StackWiden::apply(
      at::TensorList(rows), gate_up.weight->value.to(dtype), gate_up.bias->value.to(dtype));
  return StackDown::apply(at::TensorList(pairs), at::TensorList(weights),
                          down.weight->value.to(dtype), down.bias->value.to(dtype),
                          StackWays{clamp, unread});
}

}  // namespace am::nn
