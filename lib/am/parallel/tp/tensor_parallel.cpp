#include "am/parallel/tp/tensor_parallel.h"

#include <ATen/ATen.h>

#include <memory>
#include <optional>

#include "am/base/error.h"
#include "am/mesh/shard.h"
#include "am/parallel/tp/functions.h"
#include "am/parallel/tp/vocabulary.h"

namespace am::parallel::tp {

namespace {

using model::TpStyle;

constexpr int64_t kSequenceDim = 1;  // of [B, T, D]

// One object per kind of transform, so that layers which take the same one share its result.
struct Transforms {
  nn::TransformPtr enter_colwise;  // replicated (or sequence shards) -> column-wise layers
  nn::TransformPtr leave_rowwise;  // partial sums -> replicated (or sequence shards)

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
      linear.input = transforms.enter_colwise;
      break;
    case TpStyle::kRowwiseRep:
      linear.input = split_input(group);
      [[fallthrough]];
    case TpStyle::kRowwise:
      linear.output = transforms.leave_rowwise;
      linear.bias_after_output = true;
      break;
    case TpStyle::kSequenceParallel:
    case TpStyle::kReplicatedWithGradAllreduce:
      break;
  }
}

const model::TpParameter& parameter_of(const planner::Layout& layout, const std::string& name) {
  for (size_t i = 0; i < layout.inventory.parameters.size(); ++i) {
    if (layout.inventory.parameters[i].name == name) return layout.tp.parameters[i];
  }
  throw Error(ErrorKind::kInternal, "no parameter " + name);
}

}  // namespace

mesh::Extent apply_tensor_parallel(nn::Decoder& decoder, const planner::Layout& layout,
                                   const runtime::DeviceMesh& mesh) {
  const int64_t vocabulary = decoder.config().vocab_size;
  const runtime::Group& group = mesh.group("tp");
  if (group.size() == 1) return {0, vocabulary};
  const Transforms transforms(group, layout.tp_plan.sequence_parallel);
  const mesh::Extent slice = mesh::chunk(vocabulary, group.size(), group.index());

  nn::Embedding& embedding = decoder.embedding();
  const bool cut_embedding = parameter_of(layout, embedding.weight->name).shard_dim == 0;
  if (cut_embedding) {
    embedding.lookup = [slice, transforms, padding = embedding.padding](const at::Tensor& ids,
                                                                        const at::Tensor& weight) {
      return nn::apply_transform(transforms.leave_rowwise,
                                 lookup_slice(ids, weight, slice, padding));
    };
  }
  for (const auto& [name, linear] : decoder.linears()) {
    if (linear->weight == embedding.weight) {
      // A tied head holds the embedding's slice, which is a column-wise cut of the head.
      if (cut_embedding) linear->input = transforms.enter_colwise;
      continue;
    }
    const auto& parameter = parameter_of(layout, linear->weight->name);
    if (!parameter.style) continue;
    const auto* spec = layout.inventory.find(linear->weight->name);
    apply_style(*linear, *parameter.style, spec->shape.front(), transforms, group);
  }
  const auto& head = parameter_of(layout, decoder.head().weight->name);
  const bool cut_head = head.shard_dim == 0 && head.style != TpStyle::kColwiseRep;
  return cut_head ? slice : mesh::Extent{0, vocabulary};
}

}  // namespace am::parallel::tp
