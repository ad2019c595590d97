#include "am/runtime/gloo_group.h"

#include <ATen/ATen.h>

#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace am::runtime {

namespace {

constexpr const char* kAborted = "the group was aborted";

// A reduce-scatter in progress. wait() waits for the parts from all ranks and sums the parts, in
// float32 if their dtype is bfloat16 or float16, otherwise in their dtype.
class SumOfParts final : public c10d::Work {
 public:
  SumOfParts(c10::intrusive_ptr<c10d::Work> arrival, at::Tensor parts, at::Tensor in,
             at::Tensor out)
      : arrival_(std::move(arrival)),
        parts_(std::move(parts)),
        in_(std::move(in)),
        out_(std::move(out)) {}

  bool isCompleted() override { return arrival_->isCompleted(); }

  bool wait(std::chrono::milliseconds timeout) override {
    arrival_->wait(timeout);
    if (!parts_.defined()) return true;  // an earlier call has summed the parts
    if (at::isReducedFloatingType(out_.scalar_type())) {
      out_.copy_(parts_.sum(0, false, at::kFloat));
    } else {
      at::sum_out(out_, parts_, {0}, false, out_.scalar_type());
    }
    parts_ = in_ = at::Tensor();
    return true;
  }

 private:
  c10::intrusive_ptr<c10d::Work> arrival_;
  at::Tensor parts_, in_, out_;
};

// Holds a tensor whose memory a Gloo thread uses. The Gloo thread may keep its reference to
// tensor() for some time after the work has completed; let_go() releases the held tensor
// nevertheless.
class Lent {
 public:
  explicit Lent(const at::Tensor& tensor)
      : owner_(std::make_shared<at::Tensor>(tensor)),
        lent_(at::from_blob(
            tensor.mutable_data_ptr(), tensor.sizes(), [owner = owner_](void*) {},
            tensor.options())) {}

  at::Tensor& tensor() { return lent_; }
  // Releases the held tensor. No thread may use its memory through tensor() any more.
  void let_go() {
    lent_.reset();
    owner_->reset();
  }

 private:
  std::shared_ptr<at::Tensor> owner_;
  at::Tensor lent_;
};

class AllToAll final : public c10d::Work {
 public:
  AllToAll(c10::intrusive_ptr<c10d::Work> work, Lent out, Lent in)
      : work_(std::move(work)), out_(std::move(out)), in_(std::move(in)) {}

  bool isCompleted() override { return work_->isCompleted(); }
  bool wait(std::chrono::milliseconds timeout) override {
    const bool over = work_->wait(timeout);
    out_.let_go();
    in_.let_go();
    return over;
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  Lent out_, in_;
};

// A message in progress. If the message was aborted, wait() throws; the wait() of c10d's own work
// returns false instead.
class Message final : public c10d::Work {
 public:
  explicit Message(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}

  bool isCompleted() override { return work_->isCompleted(); }
  bool wait(std::chrono::milliseconds timeout) override {
    if (!work_->wait(timeout)) throw std::runtime_error(kAborted);
    return true;
  }
  void abort() override { work_->abort(); }

  // Called when no strong reference to this message is left. Without this override, the weak
  // reference in GlooGroup::messages_ would keep `work_`, and `work_` the message's tensor.
  void release_resources() override { work_.reset(); }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
};

}  // namespace

c10::intrusive_ptr<c10d::Work> GlooGroup::_reduce_scatter_base(
    at::Tensor& out, at::Tensor& in, const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK(options.reduceOp == c10d::ReduceOp::SUM,
              "reduce_scatter of host tensors supports only sums");
  const at::Tensor parts = at::empty({getSize(), out.numel()}, out.options());
  at::Tensor flat_parts = parts.view(-1);
  at::Tensor flat_in = in.view(-1);
  std::vector<int64_t> equal;
  auto arrival = alltoall_base(flat_parts, flat_in, equal, equal, c10d::AllToAllOptions());
  return c10::make_intrusive<SumOfParts>(std::move(arrival), parts, flat_in, out.view(-1));
}

c10::intrusive_ptr<c10d::Work> GlooGroup::alltoall_base(at::Tensor& out, at::Tensor& in,
                                                        std::vector<int64_t>& out_rows,
                                                        std::vector<int64_t>& in_rows,
                                                        const c10d::AllToAllOptions& options) {
  // A tensor without elements may have no memory that Lent could hold.
  if (out.numel() == 0 || in.numel() == 0) {
    return ProcessGroupGloo::alltoall_base(out, in, out_rows, in_rows, options);
  }
  Lent lent_out(out), lent_in(in);
  auto work = ProcessGroupGloo::alltoall_base(lent_out.tensor(), lent_in.tensor(), out_rows,
                                              in_rows, options);
  return c10::make_intrusive<AllToAll>(std::move(work), std::move(lent_out), std::move(lent_in));
}

c10::intrusive_ptr<c10d::Work> GlooGroup::send(std::vector<at::Tensor>& tensors, int to, int tag) {
  return message(ProcessGroupGloo::send(tensors, to, tag));
}

c10::intrusive_ptr<c10d::Work> GlooGroup::recv(std::vector<at::Tensor>& tensors, int from,
                                               int tag) {
  return message(ProcessGroupGloo::recv(tensors, from, tag));
}

c10::intrusive_ptr<c10d::Work> GlooGroup::message(c10::intrusive_ptr<c10d::Work> work) {
  auto message = c10::make_intrusive<Message>(std::move(work));
  const std::lock_guard lock(mutex_);
  if (aborted_) throw std::runtime_error(kAborted);
  std::erase_if(messages_, [](const auto& other) { return other.expired(); });
  messages_.emplace_back(c10::intrusive_ptr<c10d::Work>(message));
  return message;
}

void GlooGroup::abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  for (const auto& each : messages_) {
    if (const auto message = each.lock()) message->abort();
  }
  messages_.clear();
}

}  // namespace am::runtime
