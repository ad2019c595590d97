#include "am/runtime/channel.h"

#include <utility>
#include <vector>

#include "am/base/error.h"

namespace am::runtime {

Channel::Channel(Group pair) : pair_(std::move(pair)) {
  AM_ASSERT(pair_.size() == 2, "a channel has two ends");
}

Pending Channel::send(const at::Tensor& tensor) const {
  AM_ASSERT(sends() && tensor.is_contiguous(), "a channel sends contiguous tensors from one end");
  if (tensor.numel() == 0) return {};
  return pair_.issue("send", tensor, [&](c10d::Backend& engine) {
    std::vector<at::Tensor> tensors = {tensor};
    return engine.send(tensors, /*dstRank=*/1, /*tag=*/0);
  });
}

Pending Channel::receive(const at::Tensor& tensor) const {
  AM_ASSERT(!sends() && tensor.is_contiguous(), "a channel receives at its other end");
  if (tensor.numel() == 0) return {};
  return pair_.issue("receive", tensor, [&](c10d::Backend& engine) {
    std::vector<at::Tensor> tensors = {tensor};
    return engine.recv(tensors, /*srcRank=*/0, /*tag=*/0);
  });
}

}  // namespace am::runtime
