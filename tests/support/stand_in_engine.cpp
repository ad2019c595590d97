#include "support/stand_in_engine.h"

#include <utility>
#include <vector>

#include "support/stand_in_streams.h"

namespace am::test {

namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

size_t current_number(c10::Device device) {
  return static_cast<size_t>(current_stream(device).id());
}

class OrderedWork final : public c10d::Work {
 public:
  // `held`: tensors that stay alive until wait(), as c10d keeps a collective's tensors.
  OrderedWork(WorkPtr inner, c10::Device device, StreamOrder::Clock end, Tensors held)
      : inner_(std::move(inner)), device_(device), end_(std::move(end)), held_(std::move(held)) {}

  bool isCompleted() override { return inner_->isCompleted(); }
  bool wait(std::chrono::milliseconds timeout) override {
    const Unnoted inside;
    const bool over = inner_->wait(timeout);
    stream_order(device_).wait(current_number(device_), end_);
    held_.clear();
    return over;
  }
  void abort() override { inner_->abort(); }

 private:
  WorkPtr inner_;
  c10::Device device_;
  StreamOrder::Clock end_;
  Tensors held_;
};

class OrderedGroup final : public c10d::Backend {
 public:
  OrderedGroup(c10::intrusive_ptr<c10d::Backend> inner, c10::Device device)
      : Backend(inner->getRank(), inner->getSize()),
        inner_(std::move(inner)),
        device_(device),
        stream_(make_stream(device)) {}

  const std::string getBackendName() const override { return inner_->getBackendName(); }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return ordered("all_reduce", {}, tensors, [&] { return inner_->allreduce(tensors, options); });
  }
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return ordered("broadcast", {}, tensors, [&] { return inner_->broadcast(tensors, options); });
  }
  WorkPtr _allgather_base(at::Tensor& out, at::Tensor& in,
                          const c10d::AllgatherOptions& options) override {
    return ordered("all_gather", {in}, {out},
                   [&] { return inner_->_allgather_base(out, in, options); });
  }
  WorkPtr _reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                               const c10d::ReduceScatterOptions& options) override {
    return ordered("reduce_scatter", {in}, {out},
                   [&] { return inner_->_reduce_scatter_base(out, in, options); });
  }
  WorkPtr alltoall_base(at::Tensor& out, at::Tensor& in, std::vector<int64_t>& out_rows,
                        std::vector<int64_t>& in_rows,
                        const c10d::AllToAllOptions& options) override {
    return ordered("all_to_all", {in}, {out},
                   [&] { return inner_->alltoall_base(out, in, out_rows, in_rows, options); });
  }
  WorkPtr send(Tensors& tensors, int to, int tag) override {
    return ordered("send", tensors, {}, [&] { return inner_->send(tensors, to, tag); });
  }
  WorkPtr recv(Tensors& tensors, int from, int tag) override {
    return ordered("recv", {}, tensors, [&] { return inner_->recv(tensors, from, tag); });
  }
  WorkPtr barrier(const c10d::BarrierOptions& options) override { return inner_->barrier(options); }
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override {
    inner_->monitoredBarrier(options, wait_all_ranks);
  }
  c10d::ErrorType getError() override { return inner_->getError(); }
  void abort() override { inner_->abort(); }

 private:
  template <typename Begin>
  WorkPtr ordered(const char* name, const Tensors& read, const Tensors& written,
                  const Begin& begin) {
    WorkPtr work;
    {
      const Unnoted inside;
      work = begin();
    }
    StreamOrder& order = stream_order(device_);
    order.wait(stream_, order.record(current_number(device_)));
    order.work(stream_, name, addresses(read), addresses(written));
    Tensors held = read;
    held.insert(held.end(), written.begin(), written.end());
    return c10::make_intrusive<OrderedWork>(std::move(work), device_, order.record(stream_),
                                            std::move(held));
  }

  static std::vector<const void*> addresses(const Tensors& tensors) {
    std::vector<const void*> found;
    for (const at::Tensor& tensor : tensors) {
      if (tensor.numel() > 0) found.push_back(tensor.const_data_ptr());
    }
    return found;
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
  c10::Device device_;
  size_t stream_;
};

class OrderedEngine final : public runtime::Engine {
 public:
  explicit OrderedEngine(std::shared_ptr<runtime::Engine> staged) : staged_(std::move(staged)) {}

  std::string name() const override { return staged_->name(); }
  c10::Device device() const override { return staged_->device(); }
  c10::intrusive_ptr<c10d::Backend> connect(c10::intrusive_ptr<c10d::Store> store,
                                            const runtime::CommunicatorId& group, int64_t index,
                                            const runtime::GroupOptions& options) override {
    return c10::make_intrusive<OrderedGroup>(
        staged_->connect(std::move(store), group, index, options), device());
  }

 private:
  std::shared_ptr<runtime::Engine> staged_;
};

}  // namespace

std::shared_ptr<runtime::Engine> in_nccl_order(std::shared_ptr<runtime::Engine> staged) {
  return std::make_shared<OrderedEngine>(std::move(staged));
}

}  // namespace am::test
