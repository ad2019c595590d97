#include "am/parallel/tp/tensor_parallel.h"

#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "am/base/error.h"
#include "am/base/fault.h"
#include "am/mesh/shard.h"
#include "am/parallel/tp/functions.h"
#include "am/parallel/tp/vocabulary.h"
#include "am/tensor/redistribute.h"

namespace am::parallel::tp {

namespace {

using model::TpStyle;

constexpr int64_t kSequenceDim = 1;  // the position dim of [B, T, D]

// Input and output transforms, one object of each kind for all layers. Layers with a common input
// share the transform object, so that the input is transformed only once (nn/projections.h).
struct Transforms {
  // Replicated tensor (or sequence shards) -> input of column-wise layers.
  nn::TransformPtr enter_colwise;
  // Partial sums of row-wise layers -> replicated tensor (or sequence shards).
  nn::TransformPtr leave_rowwise;

  Transforms(const runtime::Group& group, bool sequence_parallel) {
    const auto* tp = &group;
    enter_colwise = std::make_shared<const nn::Transform>([=](const at::Tensor& x) {
      return sequence_parallel ? gather_sequence(x, kSequenceDim, *tp) : copy_to_group(x, *tp);
    });
    leave_rowwise = std::make_shared<const nn::Transform>([=](const at::Tensor& x) {
      return sequence_parallel ? scatter_sum(x, kSequenceDim, *tp) : sum_over_group(x, *tp);
    });
  }
};

nn::SumOverRanks sum_over(const runtime::Group& group) {
  return [tp = &group](const at::Tensor& numbers) { tp->all_reduce(numbers); };
}

nn::TransformPtr gather_output(const runtime::Group& group, int64_t features) {
  return std::make_shared<const nn::Transform>(
      [tp = &group, features](const at::Tensor& x) { return gather_pieces(x, -1, features, *tp); });
}

nn::TransformPtr split_input(const runtime::Group& group) {
  return std::make_shared<const nn::Transform>(
      [tp = &group](const at::Tensor& x) { return take_piece(x, -1, *tp); });
}

void apply_style(nn::Linear& linear, TpStyle style, int64_t out_features,
                 const Transforms& transforms, const runtime::Group& group) {
  switch (style) {
    case TpStyle::kColwiseRep:
      linear.output = gather_output(group, out_features);
      [[fallthrough]];
    case TpStyle::kColwise:
    case TpStyle::kPackedColwise:
      linear.input = transforms.enter_colwise;
      break;
    case TpStyle::kRowwiseRep:
      linear.input = split_input(group);
      [[fallthrough]];
    case TpStyle::kRowwise:
      linear.output = transforms.leave_rowwise;
      linear.bias_after_output = !fault::is_planted(fault::Fault::kTpBiasEach);
      break;
    case TpStyle::kSequenceParallel:
    case TpStyle::kReplicatedWithGradAllreduce:
      break;
  }
}

// Entries of the TP plan and of the layout for one parameter.
struct Cut {
  const model::TpParameter* plan = nullptr;
  const layout::ParameterLayout* placed = nullptr;
};

// Index that finds the entries of a parameter by its name. A linear search would be slow: a model
// with experts has tens of thousands of matrices.
class Cuts {
 public:
  explicit Cuts(const layout::Layout& layout) {
    for (size_t i = 0; i < layout.parameters.size(); ++i) {
      by_name_[layout.parameters[i].name] = {&layout.tp.parameters[i], &layout.parameters[i]};
    }
  }

  const Cut& of(const nn::Parameter& parameter) const {
    const auto found = by_name_.find(parameter.name);
    AM_ASSERT(found != by_name_.end(), "no parameter " + parameter.name);
    return found->second;
  }

 private:
  std::unordered_map<std::string_view, Cut> by_name_;
};

void apply_to_linear(nn::Linear& linear, const Cut& cut, const Transforms& transforms,
                     const runtime::DeviceMesh& mesh) {
  if (!cut.plan->style) return;
  const bool packed = cut.plan->style == TpStyle::kPackedColwise;
  const auto dim = static_cast<size_t>(linear.in_out ? 1 : 0);
  apply_style(linear, *cut.plan->style, cut.placed->shape[dim], transforms, mesh.group("tp"));
  if (!packed) return;
  linear.slices.clear();
  for (const mesh::Extent& extent : cut.placed->tp_extents(mesh.layout(), mesh.rank())) {
    linear.slices.push_back(extent.size);
  }
}

// Sets the members of an adapter that depend on tp. dropout.first_column is the index of the first
// column of A that this rank holds. If tp shards A, `sum` adds DoRA's squared norms over the ranks.
void place_adapter(nn::Linear& linear, const Cuts& cuts, const runtime::DeviceMesh& mesh) {
  if (!linear.adapter) return;
  const layout::ParameterLayout& a = *cuts.of(*linear.adapter->a).placed;
  if (a.tp_dim && linear.adapter->magnitude) linear.adapter->sum = sum_over(mesh.group("tp"));
  if (!linear.adapter->dropout) return;
  linear.adapter->dropout->first_column = a.tp_boxes(mesh.layout(), mesh.rank()).front().offset[1];
}

// If the norm normalises all heads together and tp shards its weight, makes the norm sum its
// statistics over the tp ranks. Does nothing for other norms.
void apply_to_norm(nn::Norm& norm, const Cuts& cuts, const runtime::Group& group) {
  if (!norm.weight) return;
  const Cut& cut = cuts.of(*norm.weight);
  if (!cut.placed->tp_dim) return;
  // A head that several ranks hold is counted once per rank in the sum, and thus in the width.
  const int64_t copies = cut.placed->tp_slices.empty() ? 1 : cut.placed->tp_slices.front().copies;
  norm.width = cut.placed->shape.front() * copies;
  norm.sum = sum_over(group);
}

void apply_to_attention(nn::Attention& attention, const Cuts& cuts, const Transforms& transforms,
                        const runtime::Group& group) {
  apply_to_norm(attention.q_norm, cuts, group);
  apply_to_norm(attention.k_norm, cuts, group);
  if (!attention.slopes.empty() && cuts.of(*attention.o_proj.weight).placed->tp_dim) {
    const mesh::Extent heads =
        mesh::chunk(std::ssize(attention.slopes), group.size(), group.index());
    const auto first = attention.slopes.begin() + heads.offset;
    attention.slopes = {first, first + heads.size};
  }
  if (fault::is_planted(fault::Fault::kMlaRopeKey)) return;
  if (attention.latent && attention.latent->key_value_up.input) {
    attention.latent->key_input = transforms.enter_colwise;
  }
}

// Makes each tp rank route only its part of the tokens to experts. Under sequence parallelism, a
// rank already has only its part. Also makes `experts` sum token counts over the tp ranks. Does
// nothing if the TP plan has no rules.
void deal_tokens(nn::ExpertFeedForward& experts, const layout::Layout& layout,
                 const runtime::Group& group) {
  if (layout.tp_plan.rules.empty()) return;
  experts.sum_of_sequences = sum_over(group);
  if (layout.tp_plan.sequence_parallel) return;
  nn::SequenceSharder sharder;
  sharder.own = [tp = &group](const at::Tensor& x) { return take_piece(x, kSequenceDim, *tp); };
  sharder.all = [tp = &group](const at::Tensor& x, int64_t length) {
    return gather_pieces(x, kSequenceDim, length, *tp);
  };
  experts.sharder = std::make_shared<const nn::SequenceSharder>(std::move(sharder));
}

nn::TransformPtr own_tokens(const runtime::Group& group) {
  return std::make_shared<const nn::Transform>(
      [tp = &group](const at::Tensor& x) { return tensor::local_chunk(x, -1, *tp); });
}

}  // namespace

mesh::Extent apply_tensor_parallel(nn::Decoder& decoder, const layout::Layout& layout,
                                   const runtime::DeviceMesh& mesh) {
  const int64_t vocabulary = decoder.config().vocab_size;
  const runtime::Group& group = mesh.group("tp");
  if (group.size() == 1) return {0, vocabulary};
  const Transforms transforms(group, layout.tp_plan.sequence_parallel);
  const mesh::Extent slice = mesh::chunk(vocabulary, group.size(), group.index());

  const Cuts cuts(layout);
  nn::Embedding& embedding = decoder.embedding();
  const bool cut_embedding = embedding.weight && cuts.of(*embedding.weight).plan->shard_dim == 0;
  if (cut_embedding) {
    embedding.lookup = [slice, transforms, padding = embedding.padding](const at::Tensor& ids,
                                                                        const at::Tensor& weight) {
      return nn::apply_transform(transforms.leave_rowwise,
                                 lookup_slice(ids, weight, slice, padding));
    };
  }
  if (layout.tp_plan.sequence_parallel) decoder.set_own_positions(own_tokens(group));
  for (const auto& [name, linear] : decoder.linears()) {
    if (linear->weight == embedding.weight) {
      // The head is tied to the embedding. If the embedding is cut, the head computes the logits of
      // the embedding's slice of the vocabulary, as a column-wise layer does.
      if (cut_embedding) linear->input = transforms.enter_colwise;
      continue;
    }
    apply_to_linear(*linear, cuts.of(*linear->weight), transforms, mesh);
    place_adapter(*linear, cuts, mesh);
  }
  for (nn::DecoderLayer& layer : decoder.layers()) {
    apply_to_attention(layer.self_attn, cuts, transforms, group);
    if (layer.experts) deal_tokens(*layer.experts, layout, group);
  }
  if (!decoder.range().head) return {0, vocabulary};
  const model::TpParameter& head = *cuts.of(*decoder.head().weight).plan;
  const bool cut_head = head.shard_dim == 0 && head.style != TpStyle::kColwiseRep;
  return cut_head ? slice : mesh::Extent{0, vocabulary};
}

void apply_fp8(nn::Decoder& decoder, config::Fp8Recipe recipe, const layout::Layout& layout,
               const runtime::DeviceMesh& mesh) {
  if (recipe == config::Fp8Recipe::kNone) return;
  const Cuts cuts(layout);
  const runtime::Group& group = mesh.group("tp");
  for (const auto& [name, linear] : decoder.linears()) {
    if (!linear->fp8_allowed) continue;
    nn::fused::Fp8 fp8 = {.recipe = recipe};
    const auto dim = cuts.of(*linear->weight).placed->tp_dim;
    if (dim && group.size() > 1) {
      fp8.shards_in = (*dim == 0) == linear->in_out;
      fp8.shards_out = !fp8.shards_in;
      fp8.max_over_ranks = [tp = &group](const at::Tensor& numbers) {
        tp->all_reduce(numbers, runtime::ReduceOp::kMax);
      };
    }
    linear->fp8 = std::make_shared<const nn::fused::Fp8>(std::move(fp8));
  }
}

}  // namespace am::parallel::tp
