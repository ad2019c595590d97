#include "am/runtime/fake_engine.h"

#include <ATen/ATen.h>

#include <string>
#include <vector>

namespace am::runtime {

namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

class Finished : public c10d::Work {
 public:
  bool wait(std::chrono::milliseconds /*timeout*/) override { return true; }
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
};

WorkPtr finished() { return c10::make_intrusive<Finished>(); }

// Implements the operations that Group calls (group.cpp), except monitoredBarrier().
class Nobody : public c10d::Backend {
 public:
  using Backend::Backend;

  const std::string getBackendName() const override { return "fake"; }
  WorkPtr allreduce(Tensors& /*tensors*/, const c10d::AllreduceOptions& /*options*/) override {
    return finished();
  }
  WorkPtr broadcast(Tensors& /*tensors*/, const c10d::BroadcastOptions& /*options*/) override {
    return finished();
  }
  WorkPtr _allgather_base(at::Tensor& out, at::Tensor& in,
                          const c10d::AllgatherOptions& /*options*/) override {
    if (!in.is_meta()) out.view({getSize(), in.numel()}).copy_(in.view({1, -1}).clone());
    return finished();
  }
  WorkPtr _reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                               const c10d::ReduceScatterOptions& /*options*/) override {
    if (!in.is_meta()) out.view(-1).copy_(in.view({getSize(), out.numel()})[getRank()].clone());
    return finished();
  }
  WorkPtr alltoall_base(at::Tensor& out, at::Tensor& /*in*/, std::vector<int64_t>& /*out_sizes*/,
                        std::vector<int64_t>& /*in_sizes*/,
                        const c10d::AllToAllOptions& /*options*/) override {
    if (!out.is_meta()) out.zero_();
    return finished();
  }
  WorkPtr send(Tensors& /*tensors*/, int /*to*/, int /*tag*/) override { return finished(); }
  WorkPtr recv(Tensors& /*tensors*/, int /*from*/, int /*tag*/) override { return finished(); }
  void abort() override {}
};

class FakeEngine : public Engine {
 public:
  explicit FakeEngine(c10::Device device) : device_(device) {}

  std::string name() const override { return "fake"; }
  c10::Device device() const override { return device_; }
  c10::intrusive_ptr<c10d::Backend> connect(c10::intrusive_ptr<c10d::Store> /*store*/,
                                            const CommunicatorId& group, int64_t index,
                                            const GroupOptions& /*options*/) override {
    return c10::make_intrusive<Nobody>(static_cast<int>(index),
                                       static_cast<int>(group.ranks.size()));
  }

 private:
  c10::Device device_;
};

}  // namespace

std::shared_ptr<Engine> fake_engine(c10::Device device) {
  return std::make_shared<FakeEngine>(device);
}

}  // namespace am::runtime
