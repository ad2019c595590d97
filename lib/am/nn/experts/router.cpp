#include "am/nn/experts/router.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "am/nn/autocast.h"
#include "am/nn/experts/sequence_balance.h"
#include "am/nn/fused/product.h"
#include "am/nn/fused/tensors.h"
#include "am/nn/weight_pass.h"

namespace am::nn {

namespace {

using model::RouterSpec;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor scores_of(const at::Tensor& logits_NE, RouterSpec::Score score) {
  switch (score) {
    case RouterSpec::Score::kSoftmax:
      return logits_NE.softmax(-1);
    case RouterSpec::Score::kSigmoid:
      return logits_NE.sigmoid();
    case RouterSpec::Score::kSoftmaxOfTaken:
      break;
  }
  return logits_NE;
}

at::Tensor of_logits(const at::Tensor& of_scores, const at::Tensor& scores,
                     RouterSpec::Score score) {
  switch (score) {
    case RouterSpec::Score::kSoftmax:
      return at::_softmax_backward_data(of_scores, scores, -1, scores.scalar_type());
    case RouterSpec::Score::kSigmoid:
      return at::sigmoid_backward(of_scores, scores);
    case RouterSpec::Score::kSoftmaxOfTaken:
      break;
  }
  return of_scores;
}

at::Tensor weights_of(const at::Tensor& taken_Nk, const RouterSpec& spec) {
  at::Tensor weights_Nk = taken_Nk;
  if (spec.score == RouterSpec::Score::kSoftmaxOfTaken) {
    weights_Nk = taken_Nk.softmax(-1);
  } else if (spec.normalise) {
    weights_Nk = taken_Nk / (taken_Nk.sum(-1, /*keepdim=*/true) + spec.normalise_eps);
  }
  return spec.scale == 1.0 ? weights_Nk : weights_Nk * spec.scale;
}

at::Tensor of_taken(const at::Tensor& gradient_Nk, const at::Tensor& taken_Nk,
                    const RouterSpec& spec) {
  const at::Tensor of_Nk = spec.scale == 1.0 ? gradient_Nk : gradient_Nk * spec.scale;
  if (spec.score == RouterSpec::Score::kSoftmaxOfTaken) {
    const at::Tensor weights_Nk = taken_Nk.softmax(-1);
    return at::_softmax_backward_data(of_Nk, weights_Nk, -1, weights_Nk.scalar_type());
  }
  if (!spec.normalise) return of_Nk;
  const at::Tensor sum_N1 = taken_Nk.sum(-1, /*keepdim=*/true) + spec.normalise_eps;
  // Divides before multiplying: for k = 1 (without an epsilon), taken / sum is exactly 1 and the
  // gradient exactly 0.
  const at::Tensor along_N1 = (of_Nk * (taken_Nk / sum_N1)).sum(-1, /*keepdim=*/true);
  return (of_Nk - along_N1) / sum_N1;
}

// Masks the scores of experts outside of a token's best groups, so that none of them is chosen.
at::Tensor within_groups(const at::Tensor& scores_NE, const RouterSpec& spec) {
  const int64_t of_group = scores_NE.size(-1) / spec.groups;
  const at::Tensor scores_NGe = scores_NE.view({-1, spec.groups, of_group});
  const at::Tensor score_NG =
      spec.group_by_two_best
          ? std::get<0>(scores_NGe.topk(std::min<int64_t>(2, of_group), -1)).sum(-1)
          : scores_NGe.amax(-1);
  const at::Tensor groups_Ng = std::get<1>(score_NG.topk(spec.topk_groups, -1));
  const at::Tensor outside_NG =
      at::ones_like(score_NG, at::kBool).scatter_(-1, groups_Ng, /*value=*/false);
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  return scores_NGe.masked_fill(outside_NG.unsqueeze(-1), spec.group_by_two_best ? kNever : 0.0)
      .view_as(scores_NE);
}

at::Tensor ids_in_turn(const at::Tensor& scores_NE, const RouterSpec& spec) {
  const int64_t tokens = scores_NE.size(0);
  return at::arange(tokens * spec.top_k, scores_NE.options().dtype(at::kLong))
      .remainder_(spec.experts)
      .view({tokens, spec.top_k});
}

at::Tensor chosen_ids(const at::Tensor& scores_NE, const at::Tensor& correction_E,
                      const RouterSpec& spec) {
  at::Tensor scores = correction_E.defined() ? scores_NE + correction_E : scores_NE;
  if (spec.groups > 1) scores = within_groups(scores, spec);
  return std::get<1>(scores.topk(spec.top_k, -1));
}

// Further arguments of choose(), and its result `made`. If ids_Nk and sequence_weights_BE of `made`
// are already defined, they come from an earlier call, and choose() reuses them. choose() does not
// set weights_Nk, and sets sequence_weights_BE and balance only if the auxiliary loss is on.
struct Choice {
  at::Tensor correction_E;
  bool in_turn;
  const SequenceBalance* sequences;
  Routing made;
};

void choose(const at::Tensor& scores_NE, const RouterSpec& spec, Choice& choice) {
  Routing& made = choice.made;
  if (!made.ids_Nk.defined()) {
    made.ids_Nk = choice.in_turn ? ids_in_turn(scores_NE, spec)
                                 : chosen_ids(scores_NE, choice.correction_E, spec);
  }
  const SequenceBalance& balanced = *choice.sequences;
  if (balanced.factor == 0.0) return;
  if (!made.sequence_weights_BE.defined()) {
    const at::Tensor counts_BE = counts_of_sequences(made.ids_Nk, balanced.sequences, spec.experts,
                                                     scores_NE.options(), balanced.padding);
    if (balanced.sum) balanced.sum(counts_BE);
    made.sequence_weights_BE = sequence_weights(counts_BE, spec.top_k);
  }
  made.balance = sequence_loss(scores_NE, made.sequence_weights_BE, spec.score, balanced.padding);
}

// Autograd node of the router. Saves x and the weight in their own dtypes, the scores and the
// choice, but not the float32 copies of x and of the weight.
struct Route : torch::autograd::Function<Route> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_ND,
                            const at::Tensor& weight_ED, const std::optional<at::Tensor>& bias_E,
                            const RouterSpec* spec, Choice* choice) {
    const AutocastScope wide_scope({x_ND.device().type(), std::nullopt});
    const at::ScalarType wide = fused::wide_dtype(x_ND.scalar_type());
    at::Tensor logits_NE = fused::product(x_ND.to(wide), weight_ED.to(wide).t());
    if (bias_E) logits_NE.add_(*bias_E);
    const at::Tensor scores_NE = scores_of(logits_NE, spec->score);
    choose(scores_NE, *spec, *choice);
    const at::Tensor& ids_Nk = choice->made.ids_Nk;
    context->save_for_backward({weight_ED.requires_grad() ? x_ND : at::Tensor(), weight_ED,
                                scores_NE, ids_Nk, choice->made.sequence_weights_BE});
    context->saved_data["balance"] = choice->sequences->factor;
    context->saved_data["padding"] = choice->sequences->padding;
    context->saved_data["biased"] = bias_E.has_value();
    context->saved_data["dtype"] = x_ND.scalar_type();
    context->saved_data["score"] = static_cast<int64_t>(spec->score);
    context->saved_data["normalise"] = spec->normalise;
    context->saved_data["normalise_eps"] = spec->normalise_eps;
    context->saved_data["scale"] = spec->scale;
    keep_weight_pass(*context);
    return weights_of(scores_NE.gather(-1, ids_Nk), *spec);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const AutocastScope wide_scope({gradients[0].device().type(), std::nullopt});
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x_ND = saved[0], &weight_ED = saved[1], &scores_NE = saved[2];
    auto& data = context->saved_data;
    RouterSpec spec;
    spec.score = static_cast<RouterSpec::Score>(data["score"].toInt());
    spec.normalise = data["normalise"].toBool();
    spec.normalise_eps = data["normalise_eps"].toDouble();
    spec.scale = data["scale"].toDouble();
    const at::Tensor of_taken_Nk = of_taken(gradients[0], scores_NE.gather(-1, saved[3]), spec);
    const at::Tensor of_scores_NE = at::zeros_like(scores_NE).scatter_(-1, saved[3], of_taken_Nk);
    if (const double factor = data["balance"].toDouble(); factor != 0.0) {
      of_scores_NE.add_(
          sequence_loss_gradient(scores_NE, saved[4], spec.score, data["padding"].toInt()), factor);
    }
    const at::Tensor of_NE = of_logits(of_scores_NE, scores_NE, spec.score);
    const at::ScalarType wide = scores_NE.scalar_type();
    variable_list of(5);
    if (context->needs_input_grad(0)) {
      of[0] = fused::product(of_NE, weight_ED.to(wide)).to(data["dtype"].toScalarType());
    }
    if (context->needs_input_grad(1)) {
      const auto make = [of_NE, x_ND = x_ND.detach(), wide, dtype = weight_ED.scalar_type()] {
        return fused::product(of_NE.t(), x_ND.to(wide)).to(dtype);
      };
      if (WeightPass* pass = postponing_pass(*context)) {
        pass->owe(weight_ED, make);
      } else {
        of[1] = make();
      }
    }
    if (data["biased"].toBool()) of[2] = of_NE.sum(0).to(weight_ED.scalar_type());
    return of;
  }
};

}  // namespace

Routing Router::operator()(const at::Tensor& x_ND, const SequenceBalance& balance,
                           const Routing& known) const {
  std::optional<at::Tensor> bias;
  if (gate.bias) bias = gate.bias->value;
  Choice choice{correction ? correction->value : at::Tensor(), in_turn, &balance, known};
  choice.made.weights_Nk = Route::apply(x_ND, gate.weight->value, bias, &spec, &choice);
  return std::move(choice.made);
}

}  // namespace am::nn
