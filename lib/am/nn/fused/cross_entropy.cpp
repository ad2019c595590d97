#include "am/nn/fused/cross_entropy.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "am/base/error.h"
#include "am/nn/fused/cross_entropy_rows.h"
#include "am/tensor/token_check.h"

namespace am::nn::fused {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Note [Logits that only the loss holds]: the head keeps its input and its weight for backward, not
// the logits. Once the caller has released the logits, only one tensor uses their storage: the
// detached alias that forward saved here. Backward then writes the logits' gradient, which has
// equal size and dtype, into that storage. If the caller still holds the logits when backward runs
// (to inspect them, or for another loss), the logits stay unchanged. The alias shares the logits'
// version counter, so backward detects in-place changes.
bool is_alone(const at::Tensor& alias) { return alias.storage().use_count() == 1; }

struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& labels, const LabelRange& range,
                            const CombineSums& combine, const LossTerms& terms) {
    const at::Tensor dense = logits.contiguous();
    const at::Tensor labels_N = labels.reshape({-1});
    const at::Tensor alias_Nv = dense.tensor_data().view({labels_N.numel(), logits.size(-1)});
    if (!combine) tensor::check_tokens(labels_N, "label", logits.size(-1), range.ignored);
    LogitSums sums = logit_sums(alias_Nv, labels_N, range);
    if (combine) combine(sums);
    const at::Tensor total_N = sums.exponentials_N.log_().add_(sums.maximum_N);
    const at::Tensor counted_N = labels_N.ne(range.ignored);
    const at::Tensor loss =
        at::where(counted_N, total_N - sums.label_N, at::zeros({}, total_N.options()));
    context->save_for_backward({labels_N, total_N});
    context->saved_data["logits"] = dense.tensor_data();
    context->saved_data["version"] = static_cast<int64_t>(dense._version());
    context->saved_data["first"] = range.first;
    context->saved_data["ignored"] = range.ignored;
    context->saved_data["label_smoothing"] = terms.label_smoothing;
    context->saved_data["z_loss"] = terms.z_loss;
    context->saved_data["vocabulary"] = terms.vocabulary;
    return loss.sum(at::kDouble).to(total_N.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    auto& data = context->saved_data;
    if (data.count("logits") == 0) {
      throw Error(ErrorKind::kUsage,
                  "a second backward through the same cross-entropy is not possible",
                  "the first backward releases the logits; compute the loss again");
    }
    const at::Tensor logits = data["logits"].toTensor();
    data.erase("logits");
    if (static_cast<int64_t>(logits._version()) != data["version"].toInt()) {
      throw Error(ErrorKind::kUsage, "the logits were changed between the loss and its backward");
    }
    at::Tensor gradient = is_alone(logits) ? logits : at::empty_like(logits);
    const std::vector<int64_t> shape_Nv = {saved[0].numel(), logits.size(-1)};
    at::Tensor gradient_Nv = gradient.view(shape_Nv);
    cross_entropy_gradient(
        gradient_Nv, logits.view(shape_Nv), saved[1], saved[0],
        {data["first"].toInt(), data["ignored"].toInt()},
        {data["label_smoothing"].toDouble(), data["z_loss"].toDouble(), data["vocabulary"].toInt()},
        gradients[0]);
    return {gradient, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                             const LabelRange& range, const CombineSums& combine,
                             const LossTerms& terms) {
  return CrossEntropy::apply(logits, labels, range, combine, terms);
}

}  // namespace am::nn::fused
