#include "am/nn/attention/latent.h"

#include <ATen/ATen.h>

namespace am::nn {
namespace {

// Returns x_BTHR after the rotation. If `interleaved`, pairs_to_halves() reorders the elements
// first.
at::Tensor turned(const at::Tensor& x_BTHR, bool interleaved, const Rotation& rotation) {
  const at::Tensor x = interleaved ? pairs_to_halves(x_BTHR, x_BTHR.size(-1)) : x_BTHR;
  return rotate(x.transpose(1, 2), rotation).transpose(1, 2);
}

}  // namespace

LatentHeads::Qkv LatentHeads::make(const at::Tensor& query_BTX, const at::Tensor& key_value_BTL,
                                   const at::Tensor& key_BTR, int64_t head_width,
                                   const Rotation& rotation) const {
  const int64_t unrotated = head_width - rotated;
  const at::Tensor query_BTHK =
      (query_up ? (*query_up)(query_norm(query_BTX)) : query_BTX).unflatten(-1, {-1, head_width});
  const auto of_query = query_BTHK.split_with_sizes({unrotated, rotated}, -1);
  const at::Tensor q_BTHK = at::cat({of_query[0], turned(of_query[1], interleaved, rotation)}, -1);

  const at::Tensor key_value_BTHX =
      key_value_up(key_value_norm(key_value_BTL)).unflatten(-1, {-1, unrotated + value_width});
  const auto of_key_value = key_value_BTHX.split_with_sizes({unrotated, value_width}, -1);
  const at::Tensor shared_BTHR =
      turned(apply_transform(key_input, key_BTR).unsqueeze(2), interleaved, rotation)
          .expand({-1, -1, key_value_BTHX.size(2), -1});
  const at::Tensor k_BTHK = at::cat({of_key_value[0], shared_BTHR}, -1);
  // Copies the values. They are kept until backward, and a view would keep the keys' elements in
  // key_value_BTHX alive too.
  const at::Tensor v_BTHV = of_key_value[1].contiguous();
  return {q_BTHK.transpose(1, 2), k_BTHK.transpose(1, 2), v_BTHV.transpose(1, 2)};
}

}  // namespace am::nn
