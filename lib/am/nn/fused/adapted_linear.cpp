#include "am/nn/fused/adapted_linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "am/nn/autocast.h"
#include "am/nn/fused/product.h"
#include "am/nn/fused/tensors.h"

namespace am::nn::fused {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Gradients of A x (of_low_NR) and of B. The gradients of A and of x are computed from of_low_NR.
struct LowRankGradients {
  at::Tensor of_low_NR, of_b_OR;
};

// Computes LowRankGradients from the outputs' gradients, some of which may be undefined.
LowRankGradients low_rank_gradients(const variable_list& gradients, const at::Tensor& low_NR,
                                    const at::Tensor& b_OR, double scale, const Slices& slices) {
  LowRankGradients of;
  if (low_NR.defined()) of.of_b_OR = at::zeros_like(b_OR);
  for_slices(slices.lengths, [&](size_t i, int64_t first, int64_t length) {
    if (!gradients[i].defined()) return;
    const at::Tensor gradient_NO = rows_of(gradients[i]);
    const at::Tensor rows_OR = b_OR.narrow(0, first, length);
    if (of.of_low_NR.defined()) {
      of.of_low_NR.addmm_(gradient_NO, rows_OR);
    } else {
      of.of_low_NR = product(gradient_NO, rows_OR);
    }
    // Computes the transpose of B's gradient, because product() may copy its left operand, and
    // low_NR is narrower than gradient_NO.
    if (!low_NR.defined()) return;
    of.of_b_OR.narrow(0, first, length).copy_(product(low_NR.t(), gradient_NO).t()).mul_(scale);
  });
  if (of.of_low_NR.defined()) of.of_low_NR.mul_(scale);
  return of;
}

// Stores the dropout's fields in a node's saved data: p as a double, all other fields as integers.
void keep_dropout(AutogradContext& context, const std::optional<Dropout>& dropout) {
  context.saved_data["p"] = dropout ? dropout->p : 0.0;
  if (!dropout) return;
  const DropoutRows& rows = dropout->rows;
  std::vector<int64_t> numbers = {static_cast<int64_t>(dropout->key),
                                  rows.first_sequence,
                                  rows.sequences,
                                  rows.length,
                                  rows.part,
                                  dropout->first_column};
  for (const mesh::Extent& run : rows.runs) {
    numbers.push_back(run.offset);
    numbers.push_back(run.size);
  }
  context.saved_data["dropped"] = std::move(numbers);
}

std::optional<Dropout> kept_dropout(AutogradContext& context) {
  const double p = context.saved_data["p"].toDouble();
  if (p == 0.0) return std::nullopt;
  const std::vector<int64_t> of = context.saved_data["dropped"].toIntVector();
  DropoutRows rows = {of[1], of[2], of[3], of[4]};
  for (size_t i = 6; i + 1 < of.size(); i += 2) rows.runs.push_back({of[i], of[i + 1]});
  return Dropout{p, static_cast<uint64_t>(of[0]), std::move(rows), of[5]};
}

// Returns A's input: x_..I as rows, after dropout.
at::Tensor read_by_a(const at::Tensor& x, const std::optional<Dropout>& dropout) {
  return dropout ? dropped(rows_of(x), *dropout) : rows_of(x);
}

// Adds the adapter's part to the gradient of x, in place.
void add_through_a(const at::Tensor& of_x, const at::Tensor& of_low_NR, const at::Tensor& a_RI,
                   const std::optional<Dropout>& dropout) {
  at::Tensor rows_NI = rows_of(of_x);
  if (!dropout) {
    rows_NI.addmm_(of_low_NR, a_RI);
    return;
  }
  at::Tensor of_read_NI = product(of_low_NR, a_RI);
  drop(of_read_NI, *dropout);
  rows_NI.add_(of_read_NI);
}

struct AdaptedProduct : torch::autograd::Function<AdaptedProduct> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const at::Tensor& weight, const at::Tensor& a_RI,
                               const at::Tensor& b_OR, const std::optional<at::Tensor>& bias,
                               const LowRank& adapter, const Slices& slices) {
    const at::Tensor low_NR = product(read_by_a(x, adapter.dropout), a_RI.t());
    const bool reads_x = weight.requires_grad() || a_RI.requires_grad();
    context->save_for_backward({reads_x ? x : at::Tensor(), weight, a_RI, b_OR,
                                b_OR.requires_grad() ? low_NR : at::Tensor()});
    context->set_materialize_grads(false);
    context->saved_data["biased"] = bias.has_value();
    context->saved_data["scale"] = adapter.scale;
    keep_dropout(*context, adapter.dropout);
    keep(*context, slices.form);
    context->saved_data["lengths"] = slices.lengths;
    keep_weight_pass(*context);
    variable_list outputs = slice_outputs(x, weight, bias, slices);
    for_slices(slices.lengths, [&](size_t i, int64_t first, int64_t length) {
      if (i < slices.known.size() && slices.known[i].defined()) return;
      rows_of(outputs[i]).addmm_(low_NR, b_OR.narrow(0, first, length).t(), 1.0, adapter.scale);
    });
    return outputs;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &a_RI = saved[2], &b_OR = saved[3];
    const Slices slices = {.lengths = context->saved_data["lengths"].toIntVector(),
                           .form = kept_form(*context)};
    const bool biased = context->saved_data["biased"].toBool();
    const LinearNeeds needs = {context->needs_input_grad(0), context->needs_input_grad(1),
                               biased && context->needs_input_grad(4)};
    const LinearNeeds now = needs_now(*context, needs, weight, [&] {
      return slice_weight_product(gradients, x, weight, slices);
    });
    LinearGradients of = slice_gradients(gradients, x, weight, slices, now);
    const LowRankGradients low = low_rank_gradients(
        gradients, saved[4], b_OR, context->saved_data["scale"].toDouble(), slices);
    const std::optional<Dropout> dropout = kept_dropout(*context);
    at::Tensor of_a_RI;
    if (low.of_low_NR.defined()) {
      if (needs.x) add_through_a(of.of_x, low.of_low_NR, a_RI, dropout);
      if (context->needs_input_grad(2)) {
        of_a_RI = product(low.of_low_NR.t(), read_by_a(x, dropout));
      }
    }
    return {of.of_x, of.of_weight, of_a_RI, low.of_b_OR, of.of_bias, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

std::vector<at::Tensor> adapted_linear(const at::Tensor& x, const at::Tensor& weight,
                                       const std::optional<at::Tensor>& bias,
                                       const LowRank& adapter, const Slices& slices) {
  const at::ScalarType dtype = current_autocast(x.device().type()).dtype.value_or(x.scalar_type());
  std::optional<at::Tensor> added;
  if (bias) added = bias->to(dtype);
  return AdaptedProduct::apply(x.to(dtype), weight.to(dtype), adapter.a_RI.to(dtype),
                               adapter.b_OR.to(dtype), added, adapter, slices);
}

// |W + s B A|^2 = |W|^2 + 2 s <W A^T, B> + s^2 <B A A^T, B>, row by row. Each term is a sum over
// the columns of W and A. If ranks hold different columns, `sum` adds their sums.
at::Tensor adapted_norms(const at::Tensor& weight, bool in_out, const LowRank& adapter,
                         const std::function<void(const at::Tensor&)>& sum) {
  const at::NoGradGuard no_grad;
  const at::ScalarType wide = wide_dtype(weight.scalar_type());
  const at::Tensor weight_OI = in_out ? weight.t() : weight;
  const at::Tensor a_RI = adapter.a_RI.to(weight.scalar_type());
  const at::Tensor b_OR = adapter.b_OR.to(wide);
  const at::Tensor cross_OR = weight_OI.mm(a_RI.t()).to(wide);
  const at::Tensor gram_RR = a_RI.to(wide).mm(a_RI.t().to(wide));
  const at::Tensor added_OR = cross_OR.mul_(2.0 * adapter.scale)
                                  .add_(b_OR.mm(gram_RR), adapter.scale * adapter.scale)
                                  .mul_(b_OR);
  const at::Tensor squares_O =
      at::linalg_vector_norm(weight_OI, 2, at::IntArrayRef{1}, /*keepdim=*/false, wide).square_();
  squares_O.add_(added_OR.sum(1));
  if (sum) sum(squares_O);
  return squares_O.clamp_min_(0.0).sqrt_();
}

}  // namespace am::nn::fused
