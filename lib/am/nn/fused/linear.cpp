#include "am/nn/fused/linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "am/nn/autocast.h"
#include "am/nn/fused/product.h"
#include "am/nn/weight_pass.h"

namespace am::nn::fused {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::vector<int64_t> with_last(at::IntArrayRef shape, int64_t last) {
  std::vector<int64_t> changed = shape.vec();
  changed.back() = last;
  return changed;
}

// Returns the weight as [O, I], however it is stored.
at::Tensor out_in(const at::Tensor& weight, bool in_out) { return in_out ? weight.t() : weight; }

// Returns a view of the part of a weight that computes the outputs [first, first + length).
at::Tensor rows_in(const at::Tensor& weight, const WeightForm& form, int64_t first,
                   int64_t length) {
  return weight.narrow(form.in_out ? 1 : 0, first, length);
}

// Returns which gradients autograd needs: of x, of the weight, and of the bias. The bias, if there
// is one, is the node's third input.
LinearNeeds needs_of(AutogradContext& context) {
  const bool biased = context.saved_data["biased"].toBool();
  return {context.needs_input_grad(0), context.needs_input_grad(1),
          biased && context.needs_input_grad(2)};
}

bool is_ours(const at::Tensor& x, const at::Tensor& weight) {
  return (x.device().is_cpu() || x.is_meta()) && x.scalar_type() == at::kFloat &&
         weight.scalar_type() == at::kFloat && x.dim() > 1 && x.numel() > 0 && weight.numel() > 0 &&
         !current_autocast(c10::DeviceType::CPU).dtype &&
         (multiplies_with_onednn() ||
          multiplies_split(x.numel() / x.size(-1), weight.numel() / x.size(-1), x.size(-1)));
}

struct Product : torch::autograd::Function<Product> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const WeightForm& form) {
    // Saves x only for the weight's gradient: no other gradient reads x.
    context->save_for_backward({weight.requires_grad() ? x : at::Tensor(), weight});
    // needs_of() reads this flag, because the node has no third input without a bias.
    context->saved_data["biased"] = bias.has_value();
    keep(*context, form);
    keep_weight_pass(*context);
    const at::Tensor weight_OI = out_in(weight, form.in_out);
    if (form.fp8 == nullptr && !is_ours(x, weight)) return at::linear(x, weight_OI, bias);
    at::Tensor y = form.fp8 == nullptr ? product(rows_of(x), weight_OI.t())
                                       : fp8_output(rows_of(x), weight_OI, *form.fp8);
    if (bias) y.add_(*bias);
    return y.view(with_last(x.sizes(), weight_OI.size(0)));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const WeightForm form = kept_form(*context);
    const LinearNeeds needs = needs_now(*context, needs_of(*context), saved[1], [&] {
      return [gradient = gradients[0], x = saved[0].detach(), form] {
        return linear_gradients(gradient, x, {}, {.weight = true}, form).of_weight;
      };
    });
    const LinearGradients of = linear_gradients(gradients[0], saved[0], saved[1], needs, form);
    return {of.of_x, of.of_weight, of.of_bias, at::Tensor()};
  }
};

struct SlicedProduct : torch::autograd::Function<SlicedProduct> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                               const Slices& slices) {
    context->save_for_backward({weight.requires_grad() ? x : at::Tensor(), weight});
    context->set_materialize_grads(false);
    context->saved_data["biased"] = bias.has_value();
    keep(*context, slices.form);
    context->saved_data["lengths"] = slices.lengths;
    keep_weight_pass(*context);
    return slice_outputs(x, weight, bias, slices);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Slices slices = {.lengths = context->saved_data["lengths"].toIntVector(),
                           .form = kept_form(*context)};
    const LinearNeeds needs = needs_now(*context, needs_of(*context), saved[1], [&] {
      return slice_weight_product(gradients, saved[0], saved[1], slices);
    });
    const LinearGradients of = slice_gradients(gradients, saved[0], saved[1], slices, needs);
    return {of.of_x, of.of_weight, of.of_bias, at::Tensor()};
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias, const WeightForm& form) {
  if (form.fp8 == nullptr) {
    if (is_ours(x, weight)) return Product::apply(x, weight, bias, form);
    if (!current_weight_pass()) return at::linear(x, out_in(weight, form.in_out), bias);
  }
  // Product runs here for every dtype and device, because at::linear neither multiplies in FP8 nor
  // postpones the weight's gradient (weight_pass.h). Operands are cast to the autocast dtype or,
  // without autocast, to x's dtype.
  const at::ScalarType dtype = current_autocast(x.device().type()).dtype.value_or(x.scalar_type());
  std::optional<at::Tensor> added;
  if (bias) added = bias->to(dtype);
  return Product::apply(x.to(dtype), weight.to(dtype), added, form);
}

std::vector<at::Tensor> sliced_linear(const at::Tensor& x, const at::Tensor& weight,
                                      const std::optional<at::Tensor>& bias, const Slices& slices) {
  // Casts all operands once for all slices: to the autocast dtype or, without autocast, to x's
  // dtype.
  const at::ScalarType dtype = current_autocast(x.device().type()).dtype.value_or(x.scalar_type());
  std::optional<at::Tensor> added;
  if (bias) added = bias->to(dtype);
  return SlicedProduct::apply(x.to(dtype), weight.to(dtype), added, slices);
}

void keep(AutogradContext& context, const WeightForm& form) {
  context.saved_data["in_out"] = form.in_out;
  context.saved_data["fp8"] = reinterpret_cast<int64_t>(form.fp8);
}

WeightForm kept_form(AutogradContext& context) {
  return {context.saved_data["in_out"].toBool(),
          reinterpret_cast<const Fp8*>(context.saved_data["fp8"].toInt())};
}

LinearGradients linear_gradients(const at::Tensor& gradient, const at::Tensor& x,
                                 const at::Tensor& weight, const LinearNeeds& needs,
                                 const WeightForm& form) {
  const at::Tensor gradient_NO = rows_of(gradient);
  LinearGradients of;
  if (needs.x) {
    const at::Tensor weight_OI = out_in(weight, form.in_out);
    const at::Tensor of_x_NI = form.fp8 == nullptr
                                   ? product(gradient_NO, weight_OI)
                                   : fp8_gradient_of_x(gradient_NO, weight_OI, *form.fp8);
    of.of_x = of_x_NI.view(with_last(gradient.sizes(), weight_OI.size(1)));
  }
  if (needs.weight && form.fp8 != nullptr) {
    const at::Tensor of_weight_OI = fp8_gradient_of_weight(gradient_NO, rows_of(x), *form.fp8);
    of.of_weight = form.in_out ? of_weight_OI.t().contiguous() : of_weight_OI;
  } else if (needs.weight) {
    of.of_weight =
        form.in_out ? product(rows_of(x).t(), gradient_NO) : product(gradient_NO.t(), rows_of(x));
  }
  if (needs.bias) of.of_bias = gradient_NO.sum(0);
  return of;
}

std::vector<at::Tensor> slice_outputs(const at::Tensor& x, const at::Tensor& weight,
                                      const std::optional<at::Tensor>& bias, const Slices& slices) {
  std::vector<at::Tensor> outputs;
  for_slices(slices.lengths, [&](size_t i, int64_t first, int64_t length) {
    const bool known = i < slices.known.size() && slices.known[i].defined();
    std::optional<at::Tensor> added;
    if (bias) added = bias->narrow(0, first, length);
    // A known output is returned detached, so that a caller that keeps the output does not keep the
    // output's graph alive.
    outputs.push_back(
        known ? slices.known[i].detach()
              : linear(x, rows_in(weight, slices.form, first, length), added, slices.form));
  });
  return outputs;
}

std::function<at::Tensor()> slice_weight_product(const std::vector<at::Tensor>& gradients,
                                                 const at::Tensor& x, const at::Tensor& weight,
                                                 const Slices& slices) {
  // Captures only the weight's shape and options, because the weight's values may be freed before
  // the call.
  return [gradients, x = x.detach(), shape = weight.sizes().vec(), options = weight.options(),
          lengths = slices.lengths, form = slices.form] {
    const auto product_of = [&](const at::Tensor& gradient) {
      return linear_gradients(gradient, x, {}, {.weight = true}, form).of_weight;
    };
    if (lengths.size() == 1 && gradients[0].defined()) return product_of(gradients[0]);
    at::Tensor of_weight = at::empty(shape, options);
    for_slices(lengths, [&](size_t i, int64_t first, int64_t length) {
      const at::Tensor part = rows_in(of_weight, form, first, length);
      if (gradients[i].defined()) {
        part.copy_(product_of(gradients[i]));
      } else {
        part.zero_();
      }
    });
    return of_weight;
  };
}

LinearGradients slice_gradients(const std::vector<at::Tensor>& gradients, const at::Tensor& x,
                                const at::Tensor& weight, const Slices& slices,
                                const LinearNeeds& needs) {
  if (slices.lengths.size() == 1 && gradients[0].defined()) {
    return linear_gradients(gradients[0], x, weight, needs, slices.form);
  }
  const LinearNeeds rest = {.x = needs.x, .bias = needs.bias};
  LinearGradients of;
  if (needs.weight) of.of_weight = slice_weight_product(gradients, x, weight, slices)();
  if (needs.bias) {
    of.of_bias = at::empty({weight.size(slices.form.in_out ? 1 : 0)}, weight.options());
  }
  for_slices(slices.lengths, [&](size_t i, int64_t first, int64_t length) {
    if (!gradients[i].defined()) {
      if (needs.bias) of.of_bias.narrow(0, first, length).zero_();
      return;
    }
    const LinearGradients part = linear_gradients(
        gradients[i], x, rows_in(weight, slices.form, first, length), rest, slices.form);
    if (needs.x && of.of_x.defined()) of.of_x.add_(part.of_x);
    if (needs.x && !of.of_x.defined()) of.of_x = part.of_x;
    if (needs.bias) of.of_bias.narrow(0, first, length).copy_(part.of_bias);
  });
  return of;
}

}  // namespace am::nn::fused
