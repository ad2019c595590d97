#include "am/runtime/staged_engine.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>
#include <vector>

#include "am/base/text.h"

namespace am::runtime {

namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

// Copies without autograd and without changing version counters, as c10d's backends do when they
// write to tensors.
void copy_raw(const at::Tensor& to, const at::Tensor& from) {
  const at::AutoDispatchBelowADInplaceOrView raw;
  to.copy_(from, /*non_blocking=*/true);
}

// Returns a contiguous host tensor with the shape and dtype of `tensor`; pinned if `tensor` is on a
// CUDA device. The values are uninitialised.
at::Tensor staging_for(const at::Tensor& tensor) {
  const auto options = at::TensorOptions(tensor.scalar_type()).pinned_memory(tensor.is_cuda());
  return at::empty(tensor.sizes(), options);
}

// Returns host copies of the tensors. Waits until the work queued on the device's current stream,
// the copies included, is done.
Tensors staged(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors) {
    copies.push_back(staging_for(tensor));
    copy_raw(copies.back(), tensor);
  }
  const c10::Device device = tensors.at(0).device();
  c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
  return copies;
}

at::Tensor staged(const at::Tensor& tensor) { return staged(Tensors{tensor})[0]; }

// A collective or message that the host engine runs. wait() waits for the host engine, then copies
// `arrived`, the result in host memory, to `out`. `out` is undefined if this rank gets no result.
class StagedWork final : public c10d::Work {
 public:
  StagedWork(at::Tensor out, at::Tensor arrived, WorkPtr host)
      : out_(std::move(out)), arrived_(std::move(arrived)), host_(std::move(host)) {}

  bool isCompleted() override { return !host_ || host_->isCompleted(); }
  bool wait(std::chrono::milliseconds timeout) override {
    if (!host_) return true;
    const bool over = host_->wait(timeout);
    if (out_.defined()) copy_raw(out_, arrived_);
    host_.reset();
    out_ = arrived_ = at::Tensor();
    return over;
  }
  void abort() override {
    if (host_) host_->abort();
  }

 private:
  at::Tensor out_, arrived_;
  WorkPtr host_;  // destroyed first, because it may still write to the tensors
};

class StagedGroup final : public c10d::Backend {
 public:
  StagedGroup(c10::intrusive_ptr<c10d::Backend> host, c10::Device device)
      : Backend(host->getRank(), host->getSize()), host_(std::move(host)), device_(device) {}

  const std::string getBackendName() const override { return host_->getBackendName(); }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    check(tensors);
    Tensors sum = staged(tensors);
    auto work = host_->allreduce(sum, options);
    return ended_in(tensors[0], sum[0], std::move(work));
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    check(tensors);
    const bool is_root = options.rootRank == getRank();
    Tensors word = is_root ? staged(tensors) : Tensors{staging_for(tensors[0])};
    auto work = host_->broadcast(word, options);
    return ended_in(is_root ? at::Tensor() : tensors[0], word[0], std::move(work));
  }

  WorkPtr _allgather_base(at::Tensor& out, at::Tensor& in,
                          const c10d::AllgatherOptions& options) override {
    return exchange(out, in, [&](at::Tensor& arriving, at::Tensor& sent) {
      return host_->_allgather_base(arriving, sent, options);
    });
  }

  WorkPtr _reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                               const c10d::ReduceScatterOptions& options) override {
    return exchange(out, in, [&](at::Tensor& arriving, at::Tensor& sent) {
      return host_->_reduce_scatter_base(arriving, sent, options);
    });
  }

  WorkPtr alltoall_base(at::Tensor& out, at::Tensor& in, std::vector<int64_t>& out_rows,
                        std::vector<int64_t>& in_rows,
                        const c10d::AllToAllOptions& options) override {
    return exchange(out, in, [&](at::Tensor& arriving, at::Tensor& sent) {
      return host_->alltoall_base(arriving, sent, out_rows, in_rows, options);
    });
  }

  WorkPtr send(Tensors& tensors, int to, int tag) override {
    check(tensors);
    Tensors sent = staged(tensors);
    auto work = host_->send(sent, to, tag);
    return ended_in({}, sent[0], std::move(work));
  }

  // Unlike send(), does not wait for the current stream: there is no input to copy, and the wait
  // would delay messages of this rank that the peer may need before it sends.
  WorkPtr recv(Tensors& tensors, int from, int tag) override {
    check(tensors);
    Tensors arriving = {staging_for(tensors[0])};
    auto work = host_->recv(arriving, from, tag);
    return ended_in(tensors[0], arriving[0], std::move(work));
  }

  WorkPtr barrier(const c10d::BarrierOptions& options) override { return host_->barrier(options); }
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override {
    host_->monitoredBarrier(options, wait_all_ranks);
  }
  // Always returns SUCCESS: a host group throws its errors in the thread that waits, and stores
  // none.
  c10d::ErrorType getError() override { return c10d::ErrorType::SUCCESS; }
  void abort() override { host_->abort(); }

 private:
  void check(const Tensors& tensors) const {
    TORCH_CHECK(tensors.size() == 1 && tensors[0].device() == device_, "one tensor of ", device_,
                " at a time");
  }

  template <typename Begin>
  WorkPtr exchange(const at::Tensor& out, const at::Tensor& in, const Begin& begin) {
    check({in});
    check({out});
    at::Tensor sent = staged(in);
    at::Tensor arriving = staging_for(out);
    auto work = begin(arriving, sent);
    return ended_in(out, arriving, std::move(work));
  }

  static WorkPtr ended_in(at::Tensor out, at::Tensor arrived, WorkPtr host) {
    return c10::make_intrusive<StagedWork>(std::move(out), std::move(arrived), std::move(host));
  }

  c10::intrusive_ptr<c10d::Backend> host_;
  c10::Device device_;
};

class StagedEngine final : public Engine {
 public:
  StagedEngine(std::shared_ptr<Engine> host, c10::Device device)
      : host_(std::move(host)), device_(device) {}

  // The name differs from the host engine's, because both engines may connect the same ranks.
  std::string name() const override {
    return cat(c10::DeviceTypeName(device_.type(), /*lower_case=*/true), ":", host_->name());
  }
  c10::Device device() const override { return device_; }
  c10::intrusive_ptr<c10d::Backend> connect(c10::intrusive_ptr<c10d::Store> store,
                                            const CommunicatorId& group, int64_t index,
                                            const GroupOptions& options) override {
    return c10::make_intrusive<StagedGroup>(host_->connect(std::move(store), group, index, options),
                                            device_);
  }

 private:
  std::shared_ptr<Engine> host_;
  c10::Device device_;
};

}  // namespace

std::shared_ptr<Engine> make_staged_engine(std::shared_ptr<Engine> host, c10::Device device) {
  return std::make_shared<StagedEngine>(std::move(host), device);
}

}  // namespace am::runtime
