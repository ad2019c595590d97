#include "am/parallel/cp/ulysses.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>
#include <vector>

#include "am/layout/context.h"
#include "am/nn/attention/attention.h"

namespace am::parallel::cp {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Exchanges all tensors over P ranks in one all-to-all. `split(tensor)` returns the tensor's part
// for each rank, [P, ..]. `join(received, tensor)` assembles the result for `tensor` from the
// received parts, [P, elements].
template <typename Split, typename Join>
variable_list exchanged(const variable_list& tensors, const runtime::Group& group,
                        const Split& split, const Join& join) {
  const int64_t ranks = group.size();
  variable_list given;
  for (const at::Tensor& x : tensors) given.push_back(split(x).reshape({ranks, -1}));
  at::Tensor sent = at::cat(given, 1);
  const at::Tensor got = at::empty_like(sent);
  const std::vector<int64_t> each(static_cast<size_t>(ranks), 1);
  group.all_to_all(got, sent, each, each);
  sent.reset();
  variable_list out;
  int64_t first = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t size = given[i].size(1);
    out.push_back(join(got.narrow(1, first, size), tensors[i]));
    first += size;
  }
  return out;
}

// Exchanges this rank's t positions of all H heads for all T = P t positions of h = H / P heads:
// BHtX -> BhTX for each tensor. The memory order of the result is [B, T, h, X], which attention
// uses.
variable_list to_heads(const variable_list& tensors, const runtime::Group& group) {
  const int64_t ranks = group.size();
  const auto split = [&](const at::Tensor& x) {
    return x.unflatten(1, {ranks, -1}).transpose(0, 1);
  };
  const auto join = [&](const at::Tensor& got, const at::Tensor& x) {
    const int64_t heads = x.size(1) / ranks;
    return got.unflatten(1, {x.size(0), heads, x.size(2), x.size(3)})
        .permute({1, 0, 3, 2, 4})
        .reshape({x.size(0), ranks * x.size(2), heads, x.size(3)})
        .transpose(1, 2);
  };
  return exchanged(tensors, group, split, join);
}

// Performs the inverse of to_heads: BhTX -> BHtX. The memory order of the result is [B, t, H, X].
variable_list to_positions(const variable_list& tensors, const runtime::Group& group) {
  const int64_t ranks = group.size();
  const auto split = [&](const at::Tensor& x) {
    return x.unflatten(2, {ranks, -1}).permute({2, 0, 1, 3, 4});
  };
  const auto join = [&](const at::Tensor& got, const at::Tensor& x) {
    const int64_t local = x.size(2) / ranks;
    return got.unflatten(1, {x.size(0), x.size(1), local, x.size(3)})
        .permute({1, 3, 0, 2, 4})
        .reshape({x.size(0), local, ranks * x.size(1), x.size(3)})
        .contiguous()
        .transpose(1, 2);
  };
  return exchanged(tensors, group, split, join);
}

// Autograd node that runs to_heads if `heads`, otherwise to_positions. Each of these functions is
// the backward of the other.
struct Exchange : torch::autograd::Function<Exchange> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const std::optional<at::Tensor>& y,
                               const std::optional<at::Tensor>& z, bool heads,
                               const runtime::Group* group) {
    context->saved_data["heads"] = heads;
    context->saved_data["group"] = reinterpret_cast<int64_t>(group);
    variable_list tensors = {x};
    for (const auto& more : {y, z}) {
      if (more) tensors.push_back(*more);
    }
    return heads ? to_heads(tensors, *group) : to_positions(tensors, *group);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto& group =
        *reinterpret_cast<const runtime::Group*>(context->saved_data["group"].toInt());
    variable_list back = context->saved_data["heads"].toBool() ? to_positions(gradients, group)
                                                               : to_heads(gradients, group);
    back.resize(5);  // the other arguments have no gradients
    return back;
  }
};

// Repeats the heads of keys or values if the ranks cannot divide them evenly, so that each rank
// receives the key heads that its query heads read.
at::Tensor for_all_ranks(const at::Tensor& x_BGtX, int64_t ranks) {
  const int64_t copies = layout::key_head_copies(ranks, x_BGtX.size(1));
  return copies == 1 ? x_BGtX : x_BGtX.repeat_interleave(copies, 1);
}

}  // namespace

at::Tensor ulysses_attention(const nn::Qkv& heads, const nn::AttentionParams& params,
                             const std::optional<at::Tensor>& sinks_H, const SequenceGroup& ranks) {
  const nn::Qkv in = nn::narrowed(heads);
  const variable_list whole =
      Exchange::apply(in.q_BHtK, for_all_ranks(in.k_BGsK, ranks.size()),
                      for_all_ranks(in.v_BGsV, ranks.size()), /*heads=*/true, ranks.group);
  const int64_t own_heads = whole[0].size(1);
  const int64_t first_head = ranks.index() * own_heads;
  std::optional<at::Tensor> own_sinks;
  if (sinks_H) own_sinks = sinks_H->narrow(0, first_head, own_heads);
  nn::AttentionParams own_params = params;
  if (!params.slopes.empty()) {
    const auto first = params.slopes.begin() + first_head;
    own_params.slopes.assign(first, first + own_heads);
  }
  const at::Tensor out_BhTV = nn::attention({whole[0], whole[1], whole[2]}, own_params, own_sinks);
  return Exchange::apply(out_BhTV, std::nullopt, std::nullopt, /*heads=*/false, ranks.group)
      .front();
}

}  // namespace am::parallel::cp
