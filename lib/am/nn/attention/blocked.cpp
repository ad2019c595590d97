#include "am/nn/attention/blocked.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>

#include "am/nn/autocast.h"
#include "am/nn/fused/tensors.h"

namespace am::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kRowsOfABlock = 128;

// Queries [row, row + rows) and the keys that they may see.
struct Block {
  int64_t row, rows;
  int64_t first, keys;
};

template <typename Visit>
void for_blocks(int64_t length, int64_t window, const Visit& visit) {
  for (int64_t row = 0; row < length; row += kRowsOfABlock) {
    const int64_t rows = std::min(kRowsOfABlock, length - row);
    const int64_t first = window > 0 ? std::max<int64_t>(0, row - window + 1) : 0;
    visit(Block{row, rows, first, row + rows - first});
  }
}

// The heads of one key head side by side: x_BHtK -> [B * G, H / G * t, K], in the dtype of the
// sums.
at::Tensor grouped(const at::Tensor& x_BHtK, int64_t key_heads, at::ScalarType dtype) {
  const int64_t batch = x_BHtK.size(0), width = x_BHtK.size(3);
  return x_BHtK.to(dtype).reshape({batch * key_heads, -1, width});
}

class Scores {
 public:
  Scores(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK, const Look& look)
      : q_(q_BHTK), k_(k_BGTK), look_(look), dtype_(fused::wide_dtype(q_BHTK.scalar_type())) {}

  at::ScalarType dtype() const { return dtype_; }
  int64_t groups() const { return k_.size(1); }
  at::Tensor queries(const Block& block) const {
    return grouped(q_.narrow(2, block.row, block.rows), groups(), dtype_);
  }
  at::Tensor keys(const Block& block) const { return seen(k_, block); }
  // The rows of keys or values that the block may see.
  at::Tensor seen(const at::Tensor& x_BGTX, const Block& block) const {
    return grouped(x_BGTX.narrow(2, block.first, block.keys), groups(), dtype_);
  }

  // Of each row of scores its head's sink: [B * G, H / G * rows, 1].
  at::Tensor sinks(const at::Tensor& sinks_H, const Block& block) const {
    const at::Tensor sinks_BHt1 =
        sinks_H.view({1, -1, 1, 1}).expand({q_.size(0), q_.size(1), block.rows, 1});
    return grouped(sinks_BHt1, groups(), dtype_);
  }

  struct Made {
    at::Tensor scores;   // [B * G, H / G * rows, keys]; -inf where a query does not see a key
    at::Tensor tangent;  // under a soft-cap: tanh(score / c)
  };
  Made make(const Block& block, const at::Tensor& queries, const at::Tensor& keys) const {
    Made made;
    made.scores = at::bmm(queries, keys.transpose(1, 2)).mul_(look_.scale);
    if (look_.softcap) {
      made.tangent = made.scores.div_(*look_.softcap).tanh_();
      made.scores = made.tangent * *look_.softcap;
    }
    const int64_t batch = q_.size(0);
    made.scores.view({batch, groups(), -1, block.rows, block.keys})
        .masked_fill_(hidden(block), -std::numeric_limits<double>::infinity());
    return made;
  }

 private:
  // [rows, keys] or [B, 1, 1, rows, keys], true where a query does not see a key.
  at::Tensor hidden(const Block& block) const {
    const auto integers = at::TensorOptions(at::kLong).device(q_.device());
    const at::Tensor query = at::arange(block.row, block.row + block.rows, integers).unsqueeze(1);
    const at::Tensor key = at::arange(block.first, block.first + block.keys, integers).unsqueeze(0);
    at::Tensor hidden = key.gt(query);
    if (look_.window > 0) hidden = hidden.bitwise_or(key.le(query - look_.window));
    if (!look_.document_BT.defined()) return hidden;
    const at::Tensor own = look_.document_BT.narrow(1, block.row, block.rows).unsqueeze(2);
    const at::Tensor other = look_.document_BT.narrow(1, block.first, block.keys).unsqueeze(1);
    return hidden.bitwise_or(own.ne(other)).unsqueeze(1).unsqueeze(1);
  }

  const at::Tensor& q_;
  const at::Tensor& k_;
  const Look& look_;
  at::ScalarType dtype_;
};

// x [B * G, H / G * rows, V] -> BHtV of those rows.
at::Tensor ungrouped(const at::Tensor& x, int64_t batch, int64_t rows) {
  return x.view({batch, -1, rows, x.size(2)});
}

struct Blocked : torch::autograd::Function<Blocked> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q_BHTK,
                            const at::Tensor& k_BGTK, const at::Tensor& v_BGTV,
                            const std::optional<at::Tensor>& sinks_H, const Look& look) {
    const AutocastScope plain({q_BHTK.device().type(), std::nullopt});
    const int64_t batch = q_BHTK.size(0), heads = q_BHTK.size(1), length = q_BHTK.size(2);
    const Scores scores(q_BHTK, k_BGTK, look);
    const at::Tensor out_BTHV = at::empty({batch, length, heads, v_BGTV.size(3)}, q_BHTK.options());
    const at::Tensor lse_BHT =
        at::empty({batch, heads, length}, q_BHTK.options().dtype(scores.dtype()));
    for_blocks(length, look.window, [&](const Block& block) {
      at::Tensor p = scores.make(block, scores.queries(block), scores.keys(block)).scores;
      at::Tensor most = p.amax(-1, /*keepdim=*/true);
      at::Tensor sink;
      if (sinks_H) {
        sink = scores.sinks(*sinks_H, block);
        most = at::maximum(most, sink);
      }
      p.sub_(most).exp_();
      at::Tensor sum = p.sum(-1, /*keepdim=*/true);
      if (sinks_H) sum += (sink - most).exp_();
      const at::Tensor out = at::bmm(p, scores.seen(v_BGTV, block)).div_(sum);
      out_BTHV.narrow(1, block.row, block.rows)
          .copy_(ungrouped(out, batch, block.rows).transpose(1, 2));
      lse_BHT.narrow(2, block.row, block.rows)
          .copy_(ungrouped(most + sum.log(), batch, block.rows).squeeze(-1));
    });
    context->save_for_backward(
        {q_BHTK, k_BGTK, v_BGTV, lse_BHT, look.document_BT, sinks_H.value_or(at::Tensor())});
    context->saved_data["scale"] = look.scale;
    context->saved_data["softcap"] = look.softcap;
    context->saved_data["window"] = look.window;
    return out_BTHV.transpose(1, 2);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Look look = {context->saved_data["scale"].toDouble(),
                       context->saved_data["softcap"].toOptional<double>(),
                       context->saved_data["window"].toInt(), saved[4]};
    const at::Tensor &q_BHTK = saved[0], &k_BGTK = saved[1], &v_BGTV = saved[2];
    const AutocastScope plain({q_BHTK.device().type(), std::nullopt});
    const at::Tensor& of_out_BHTV = gradients[0];
    const Scores scores(q_BHTK, k_BGTK, look);
    const int64_t batch = q_BHTK.size(0), groups = scores.groups();
    const at::ScalarType wide = scores.dtype();
    const at::Tensor& sinks_H = saved[5];
    at::Tensor of_sinks_H;
    if (sinks_H.defined()) of_sinks_H = at::zeros({q_BHTK.size(1)}, sinks_H.options().dtype(wide));
    const at::Tensor of_q_BHTK = at::empty_like(q_BHTK);
    const at::Tensor of_k_BGTK = at::zeros(k_BGTK.sizes(), k_BGTK.options().dtype(wide));
    const at::Tensor of_v_BGTV = at::zeros(v_BGTV.sizes(), v_BGTV.options().dtype(wide));
    for_blocks(q_BHTK.size(2), look.window, [&](const Block& block) {
      const at::Tensor q = scores.queries(block), k = scores.keys(block);
      const auto rows_of = [&](const at::Tensor& x_BHTV) {
        return grouped(x_BHTV.narrow(2, block.row, block.rows), groups, wide);
      };
      const auto add = [&](const at::Tensor& sum_BGTX, const at::Tensor& part) {
        sum_BGTX.narrow(2, block.first, block.keys)
            .add_(part.view({batch, groups, block.keys, part.size(2)}));
      };
      const at::Tensor of_out = rows_of(of_out_BHTV);
      const Scores::Made made = scores.make(block, q, k);
      const at::Tensor lse = rows_of(saved[3].unsqueeze(-1));
      const at::Tensor p = made.scores.sub_(lse).exp_();
      add(of_v_BGTV, at::bmm(p.transpose(1, 2), of_out));
      const at::Tensor v = scores.seen(v_BGTV, block);
      // As softmax's own backward: a query that sees one key has a gradient of exactly 0.
      at::Tensor of_scores = at::bmm(of_out, v.transpose(1, 2));
      const at::Tensor sum = (of_scores * p).sum(-1, /*keepdim=*/true);
      if (sinks_H.defined()) {  // a key whose value has no gradient
        const at::Tensor of_sinks = (scores.sinks(sinks_H, block) - lse).exp_().mul_(sum);
        of_sinks_H.sub_(ungrouped(of_sinks, batch, block.rows).sum({0, 2, 3}));
      }
      of_scores.sub_(sum).mul_(p);
      if (look.softcap) of_scores.mul_(1 - made.tangent.square());
      of_scores.mul_(look.scale);
      of_q_BHTK.narrow(2, block.row, block.rows)
          .copy_(ungrouped(at::bmm(of_scores, k), batch, block.rows));
      add(of_k_BGTK, at::bmm(of_scores.transpose(1, 2), q));
    });
    if (sinks_H.defined()) of_sinks_H = of_sinks_H.to(sinks_H.scalar_type());
    return {of_q_BHTK, of_k_BGTK.to(k_BGTK.scalar_type()), of_v_BGTV.to(v_BGTV.scalar_type()),
            of_sinks_H, at::Tensor()};
  }
};

}  // namespace

at::Tensor blocked_attention(const at::Tensor& q_BHTK, const at::Tensor& k_BGTK,
                             const at::Tensor& v_BGTV, const Look& look,
                             const std::optional<at::Tensor>& sinks_H) {
  const auto autocast = current_autocast(q_BHTK.device().type()).dtype;
  if (!autocast) return Blocked::apply(q_BHTK, k_BGTK, v_BGTV, sinks_H, look);
  return Blocked::apply(q_BHTK.to(*autocast), k_BGTK.to(*autocast), v_BGTV.to(*autocast), sinks_H,
                        look);
}

}  // namespace am::nn
