#include "am/runtime/shared_memory/shared_memory_group.h"

#include <exception>
#include <optional>
#include <torch/csrc/distributed/c10d/Utils.hpp>
#include <utility>

namespace am::runtime::shared_memory {

namespace {

std::optional<Operation> operation_of(const c10d::ReduceOp& op) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::SUM:
      return Operation::kSum;
    case c10d::ReduceOp::MIN:
      return Operation::kMin;
    case c10d::ReduceOp::MAX:
      return Operation::kMax;
    default:
      return std::nullopt;
  }
}

bool plain(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous() &&
         !tensor.is_conj() && !tensor.is_neg();
}

int64_t bytes_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

// Returns the size in bytes of each rank's part of the tensor. `rows` contains the number of rows
// of each part; if `rows` is empty, all parts have the same size.
std::vector<int64_t> bytes_of_ranks(const at::Tensor& tensor, const std::vector<int64_t>& rows,
                                    int64_t ranks) {
  if (rows.empty())
    return std::vector<int64_t>(static_cast<size_t>(ranks), bytes_of(tensor) / ranks);
  const int64_t all = tensor.size(0);
  std::vector<int64_t> bytes;
  for (const int64_t some : rows) bytes.push_back(all == 0 ? 0 : bytes_of(tensor) / all * some);
  return bytes;
}

When when(bool asynchronous) { return asynchronous ? When::kSoon : When::kWaitedFor; }

}  // namespace

SharedMemoryGroup::SharedMemoryGroup(std::unique_ptr<Channel> channel,
                                     const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                     int size, const c10::intrusive_ptr<Options>& options)
    : GlooGroup(store, rank, size, options),
      channel_(std::move(channel)),
      timeout_(options->timeout),
      exchange_(*channel_) {}

SharedMemoryGroup::~SharedMemoryGroup() {
  if (std::uncaught_exceptions() > 0) channel_->leave();
}

Exchange::Deadline SharedMemoryGroup::deadline() const {
  return timeout_.count() > 0 ? Channel::Clock::now() + timeout_ : Exchange::Deadline::max();
}

SharedMemoryGroup::Work SharedMemoryGroup::allreduce(std::vector<at::Tensor>& tensors,
                                                     const c10d::AllreduceOptions& options) {
  const auto operation = operation_of(options.reduceOp);
  if (tensors.size() != 1 || !plain(tensors[0]) || !operation ||
      !can_combine(tensors[0].scalar_type(), *operation)) {
    return GlooGroup::allreduce(tensors, options);
  }
  return tasks_.add(when(options.asyncOp), [this, tensor = tensors[0], operation] {
    exchange_.all_reduce(tensor.data_ptr(), tensor.numel(), tensor.scalar_type(), *operation,
                         deadline());
  });
}

SharedMemoryGroup::Work SharedMemoryGroup::_allgather_base(at::Tensor& out, at::Tensor& in,
                                                           const c10d::AllgatherOptions& options) {
  if (!plain(out) || !plain(in) || out.scalar_type() != in.scalar_type() ||
      out.numel() != in.numel() * getSize()) {
    return GlooGroup::_allgather_base(out, in, options);
  }
  return tasks_.add(when(options.asyncOp), [this, out, in] {
    exchange_.all_gather(out.data_ptr(), in.data_ptr(), bytes_of(in), deadline());
  });
}

SharedMemoryGroup::Work SharedMemoryGroup::_reduce_scatter_base(
    at::Tensor& out, at::Tensor& in, const c10d::ReduceScatterOptions& options) {
  if (!plain(out) || !plain(in) || out.scalar_type() != in.scalar_type() ||
      in.numel() != out.numel() * getSize() || options.reduceOp != c10d::ReduceOp::SUM ||
      !can_combine(in.scalar_type(), Operation::kSumFromZero)) {
    return GlooGroup::_reduce_scatter_base(out, in, options);
  }
  return tasks_.add(when(options.asyncOp), [this, out, in] {
    exchange_.reduce_scatter(out.data_ptr(), in.data_ptr(), out.numel(), out.scalar_type(),
                             Operation::kSumFromZero, deadline());
  });
}

SharedMemoryGroup::Work SharedMemoryGroup::broadcast(std::vector<at::Tensor>& tensors,
                                                     const c10d::BroadcastOptions& options) {
  if (tensors.size() != 1 || !plain(tensors[0])) return GlooGroup::broadcast(tensors, options);
  return tasks_.add(when(options.asyncOp), [this, tensor = tensors[0], root = options.rootRank] {
    exchange_.broadcast(tensor.data_ptr(), bytes_of(tensor), root, deadline());
  });
}

SharedMemoryGroup::Work SharedMemoryGroup::alltoall_base(at::Tensor& out, at::Tensor& in,
                                                         std::vector<int64_t>& out_rows,
                                                         std::vector<int64_t>& in_rows,
                                                         const c10d::AllToAllOptions& options) {
  if (!plain(out) || !plain(in) || out.scalar_type() != in.scalar_type()) {
    return GlooGroup::alltoall_base(out, in, out_rows, in_rows, options);
  }
  c10d::checkSplitSizes(in_rows, in, getSize());
  c10d::checkSplitSizes(out_rows, out, getSize());
  return tasks_.add(when(options.asyncOp),
                    [this, out, in, out_bytes = bytes_of_ranks(out, out_rows, getSize()),
                     in_bytes = bytes_of_ranks(in, in_rows, getSize())] {
                      exchange_.all_to_all(out.data_ptr(), in.data_ptr(), out_bytes, in_bytes,
                                           static_cast<int64_t>(in.element_size()), deadline());
                    });
}

void SharedMemoryGroup::abort() {
  channel_->leave();
  GlooGroup::abort();
}

}  // namespace am::runtime::shared_memory
