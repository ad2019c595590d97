#include "am/runtime/group.h"

#include <ATen/ATen.h>

#include <cstring>
#include <numeric>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <utility>

#include "am/base/error.h"
#include "am/base/first_line.h"
#include "am/base/text.h"
#include "am/runtime/device_error.h"
#include "am/runtime/trace_range.h"

namespace am::runtime {

namespace {

c10d::ReduceOp to_c10d(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return c10d::ReduceOp::SUM;
    case ReduceOp::kAvg:
      return c10d::ReduceOp::AVG;
    case ReduceOp::kProduct:
      return c10d::ReduceOp::PRODUCT;
    case ReduceOp::kMin:
      return c10d::ReduceOp::MIN;
    case ReduceOp::kMax:
      return c10d::ReduceOp::MAX;
    case ReduceOp::kBand:
      return c10d::ReduceOp::BAND;
    case ReduceOp::kBor:
      return c10d::ReduceOp::BOR;
    case ReduceOp::kBxor:
      return c10d::ReduceOp::BXOR;
  }
  return c10d::ReduceOp::SUM;
}

// Whether the tensor's collectives run on the accelerator's engine. False for the meta device,
// whose collectives run on the host engine of World::fake.
bool on_accelerator(const at::Tensor& tensor) { return !tensor.is_cpu() && !tensor.is_meta(); }

// Returns whether a collective that was issued at `start` failed because of its timeout: 90 % of
// the timeout has passed since `start`, or the accelerator's backend reports a timeout. Gloo
// distinguishes a timeout from a lost connection only in its error text, which is not parsed.
bool ran_out_of_time(const Communicator& communicator, Progress::Clock::time_point start) {
  const auto limit = communicator.id->timeout * 9 / 10;
  if (limit.count() > 0 && Progress::Clock::now() - start >= limit) return true;
  return communicator.accelerator &&
         communicator.accelerator->getError() == c10d::ErrorType::TIMEOUT;
}

// Returns the result of `call`, which calls c10d for a collective that was issued at `start`.
// Converts c10d's exceptions to a CollectiveError, or to a DeviceError if this rank's GPU has
// failed.
template <typename Call>
auto guarded(const Communicator& communicator, const Collective& collective,
             Progress::Clock::time_point start, Call&& call) {
  try {
    return call();
  } catch (const am::Error&) {
    throw;
  } catch (const std::exception& error) {
    const auto& engine = communicator.accelerator_engine;
    const c10::Device device = engine ? engine->device() : communicator.device;
    if (const auto own = device_error(error, device)) throw *own;
    const bool timed_out = ran_out_of_time(communicator, start);
    const auto& explain = communicator.context->explain;
    Stall stall;
    if (explain) stall = explain(collective, timed_out);
    throw CollectiveError(collective, timed_out, first_line(error), std::move(stall));
  }
}

// Returns the result of `call`, in which c10d may check the collective's arguments (Gloo checks
// them when the work runs). Converts an argument error, for example an unsupported dtype, to
// Error(kUsage), because the caller and not a lost peer caused it. Passes
// errors of connections (DistError) and of GPUs, including out of memory, on unchanged.
template <typename Call>
auto checked(const Collective& collective, Call&& call) {
  try {
    return call();
  } catch (const c10::DistError&) {
    throw;
  } catch (const c10::AcceleratorError&) {
    throw;
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kUsage, cat(collective.name(), ": ", first_line(error)));
  }
}

template <typename Call>
auto issued(const Communicator& communicator, const Collective& collective, Call&& call) {
  return guarded(communicator, collective, Progress::Clock::now(),
                 [&] { return checked(collective, call); });
}

}  // namespace

Pending::Pending(std::shared_ptr<Communicator> communicator, Collective collective,
                 c10::intrusive_ptr<c10d::Work> work)
    : communicator_(std::move(communicator)),
      collective_(std::move(collective)),
      issued_(Progress::Clock::now()),
      work_(std::move(work)) {}

void Pending::wait() {
  if (!work_) return;
  const TraceRange range([&] { return cat("wait ", collective_.op, " ", collective_.group); });
  auto work = std::exchange(work_, nullptr);
  Progress& progress = communicator_->context->progress;
  progress.wait_begins(collective_);
  guarded(*communicator_, collective_, issued_,
          [&] { checked(collective_, [&] { work->wait(); }); });
  progress.wait_ends();  // not called after a failure, so that this rank counts as waiting
}

Group::Group() : Group("self") {}

Group::Group(std::string name, int64_t rank) : name_(std::move(name)), alone_{rank} {}

Group::Group(std::string name, std::shared_ptr<Communicator> communicator)
    : name_(std::move(name)), communicator_(std::move(communicator)) {
  AM_ASSERT(communicator_ && communicator_->context, "a group of several ranks communicates");
}

const std::vector<int64_t>& Group::ranks() const {
  return communicator_ ? communicator_->id->ranks : alone_;
}

const std::string& Group::communicator_name() const {
  return communicator_ ? communicator_->id->name : name_;
}

int64_t Group::index() const { return communicator_ ? communicator_->index : 0; }

Group Group::renamed(std::string name) const {
  Group group = *this;
  group.name_ = std::move(name);
  return group;
}

c10::Device Group::device() const {
  return communicator_ ? communicator_->device : c10::Device(c10::kCPU);
}

Collective Group::next(const char* op) const {
  return {op, name_, communicator_->id, ++communicator_->sequence};
}

c10::intrusive_ptr<c10d::Backend> Group::backend(const at::Tensor& tensor) const {
  const auto& found = on_accelerator(tensor) ? communicator_->accelerator : communicator_->cpu;
  if (!found) {
    throw Error(
        ErrorKind::kRuntime,
        cat("group ", name_, " cannot communicate ", tensor.device().str(), " tensors"),
        "use the backend cpu:gloo,cuda:nccl or cpu:gloo,cuda:gloo for tensors of both kinds");
  }
  return found;
}

void Group::tell(const Collective& collective, std::string_view op,
                 const at::Tensor& tensor) const {
  const auto& listener = communicator_->context->on_collective;
  if (!listener) return;
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  listener(collective, op == "all_gather" ? bytes * size() : bytes);
}

Pending Group::issue(
    const char* op, const at::Tensor& tensor,
    const std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend&)>& call) const {
  const TraceRange range([&] { return cat(op, " ", name_); });
  const auto engine = backend(tensor);
  Collective collective = next(op);
  const auto start = Progress::Clock::now();
  auto work = issued(*communicator_, collective, [&] { return call(*engine); });
  Progress& progress = communicator_->context->progress;
  if (tensor.is_cpu()) progress.add_waited(Progress::Clock::now() - start);
  progress.issued(collective);
  tell(collective, op, tensor);
  if (on_accelerator(tensor)) {
    if (auto observer = communicator_->accelerator_engine->observer(work)) {
      progress.track(collective, std::move(observer), tensor.device());
    }
  }
  return {communicator_, std::move(collective), std::move(work)};
}

void Group::all_reduce(at::Tensor tensor, ReduceOp op) const {
  begin_all_reduce(std::move(tensor), op, Waits::kNow).wait();
}

Pending Group::all_reduce_async(at::Tensor tensor, ReduceOp op) const {
  return begin_all_reduce(std::move(tensor), op, Waits::kLater);
}

Pending Group::begin_all_reduce(at::Tensor tensor, ReduceOp op, Waits waits) const {
  if (size() == 1 || tensor.numel() == 0) return {};
  return issue("all_reduce", tensor, [&](c10d::Backend& engine) {
    std::vector<at::Tensor> tensors = {tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = to_c10d(op);
    options.asyncOp = is_asynchronous(tensor, waits);
    return engine.allreduce(tensors, options);
  });
}

void Group::all_gather(at::Tensor out, at::Tensor in) const {
  begin_all_gather(std::move(out), std::move(in), Waits::kNow).wait();
}

Pending Group::all_gather_async(at::Tensor out, at::Tensor in) const {
  return begin_all_gather(std::move(out), std::move(in), Waits::kLater);
}

Pending Group::begin_all_gather(at::Tensor out, at::Tensor in, Waits waits) const {
  AM_ASSERT(out.numel() == in.numel() * size(), "all_gather sizes");
  if (in.numel() == 0) return {};
  if (size() == 1) {
    if (out.data_ptr() != in.data_ptr()) out.copy_(in.view_as(out));
    return {};
  }
  return issue("all_gather", in, [&](c10d::Backend& engine) {
    at::Tensor flat_out = out.view(-1);
    at::Tensor flat_in = in.view(-1);
    c10d::AllgatherOptions options;
    options.asyncOp = is_asynchronous(in, waits);
    return engine._allgather_base(flat_out, flat_in, options);
  });
}

void Group::reduce_scatter(at::Tensor out, at::Tensor in) const {
  begin_reduce_scatter(std::move(out), std::move(in), Waits::kNow).wait();
}

Pending Group::reduce_scatter_async(at::Tensor out, at::Tensor in) const {
  return begin_reduce_scatter(std::move(out), std::move(in), Waits::kLater);
}

Pending Group::begin_reduce_scatter(at::Tensor out, at::Tensor in, Waits waits) const {
  AM_ASSERT(in.numel() == out.numel() * size(), "reduce_scatter sizes");
  if (out.numel() == 0) return {};
  if (size() == 1) {
    if (out.data_ptr() != in.data_ptr()) out.copy_(in.view_as(out));
    return {};
  }
  return issue("reduce_scatter", in, [&](c10d::Backend& engine) {
    at::Tensor flat_out = out.view(-1);
    at::Tensor flat_in = in.view(-1);
    c10d::ReduceScatterOptions options;
    options.asyncOp = is_asynchronous(in, waits);
    return engine._reduce_scatter_base(flat_out, flat_in, options);
  });
}

void Group::all_to_all(at::Tensor out, at::Tensor in, const std::vector<int64_t>& out_rows,
                       const std::vector<int64_t>& in_rows) const {
  begin_all_to_all(std::move(out), std::move(in), out_rows, in_rows, Waits::kNow).wait();
}

Pending Group::all_to_all_async(at::Tensor out, at::Tensor in, const std::vector<int64_t>& out_rows,
                                const std::vector<int64_t>& in_rows) const {
  return begin_all_to_all(std::move(out), std::move(in), out_rows, in_rows, Waits::kLater);
}

// A rank without rows to send or receive also calls the backend, because other ranks may have rows.
Pending Group::begin_all_to_all(at::Tensor out, at::Tensor in, const std::vector<int64_t>& out_rows,
                                const std::vector<int64_t>& in_rows, Waits waits) const {
  const auto fits = [&](const at::Tensor& tensor, const std::vector<int64_t>& rows) {
    return tensor.dim() > 0 && static_cast<int64_t>(rows.size()) == size() &&
           std::accumulate(rows.begin(), rows.end(), int64_t{0}) == tensor.size(0);
  };
  AM_ASSERT(fits(out, out_rows) && fits(in, in_rows), "all_to_all rows");
  if (size() == 1) {
    out.copy_(in);
    return {};
  }
  return issue("all_to_all", in, [&](c10d::Backend& engine) {
    std::vector<int64_t> received = out_rows;
    std::vector<int64_t> sent = in_rows;
    c10d::AllToAllOptions options;
    options.asyncOp = is_asynchronous(in, waits);
    return engine.alltoall_base(out, in, received, sent, options);
  });
}

void Group::rotate(at::Tensor out, at::Tensor in, int64_t shift) const {
  rotate_async(std::move(out), std::move(in), shift).wait();
}

// Runs an all-to-all in which each rank sends to only one rank.
Pending Group::rotate_async(at::Tensor out, at::Tensor in, int64_t shift) const {
  AM_ASSERT(out.numel() == in.numel(), "rotate sizes");
  const int64_t steps = (shift % size() + size()) % size();
  if (in.numel() == 0) return {};
  if (steps == 0) {
    out.copy_(in.view_as(out));
    return {};
  }
  return issue("rotate", in, [&](c10d::Backend& engine) {
    const auto only = [&](int64_t index) {
      std::vector<int64_t> elements(static_cast<size_t>(size()), 0);
      elements[static_cast<size_t>(index % size())] = in.numel();
      return elements;
    };
    at::Tensor flat_out = out.view(-1);
    at::Tensor flat_in = in.view(-1);
    std::vector<int64_t> received = only(index() + size() - steps);
    std::vector<int64_t> sent = only(index() + steps);
    return engine.alltoall_base(flat_out, flat_in, received, sent);
  });
}

void Group::broadcast(at::Tensor tensor, int64_t root) const {
  if (size() == 1 || tensor.numel() == 0) return;
  auto pending = issue("broadcast", tensor, [&](c10d::Backend& engine) {
    std::vector<at::Tensor> tensors = {tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    options.asyncOp = is_asynchronous(tensor, Waits::kNow);
    return engine.broadcast(tensors, options);
  });
  pending.wait();
}

std::vector<std::string> Group::all_gather_text(const std::string& text) const {
  if (size() == 1) return {text};
  const auto on_device = at::TensorOptions(device());
  at::Tensor lengths = at::empty({size()}, on_device.dtype(at::kLong));
  all_gather(lengths, at::full({1}, static_cast<int64_t>(text.size()), on_device.dtype(at::kLong)));
  lengths = lengths.cpu();
  const int64_t longest = lengths.max().item<int64_t>();
  at::Tensor mine = at::zeros({longest}, at::kByte);
  if (!text.empty()) std::memcpy(mine.data_ptr(), text.data(), text.size());
  at::Tensor all = at::empty({size(), longest}, on_device.dtype(at::kByte));
  all_gather(all, mine.to(device()));
  all = all.cpu();
  std::vector<std::string> texts;
  for (int64_t i = 0; i < size(); ++i) {
    const auto* begin = static_cast<const char*>(all.data_ptr()) + i * longest;
    texts.emplace_back(begin, static_cast<size_t>(lengths[i].item<int64_t>()));
  }
  return texts;
}

std::string Group::broadcast_text(const std::string& text, int64_t root) const {
  if (size() == 1) return text;
  const auto on_device = at::TensorOptions(device());
  at::Tensor length = at::full({1}, static_cast<int64_t>(text.size()), on_device.dtype(at::kLong));
  broadcast(length, root);
  at::Tensor bytes = at::zeros({length.item<int64_t>()}, at::kByte);
  if (index() == root && !text.empty()) std::memcpy(bytes.data_ptr(), text.data(), text.size());
  bytes = bytes.to(device());
  broadcast(bytes, root);
  bytes = bytes.cpu();
  return {static_cast<const char*>(bytes.data_ptr()), static_cast<size_t>(bytes.numel())};
}

void Group::barrier() const {
  if (size() == 1) return;
  // Runs an all-reduce, as c10d's NCCL barrier does. Does not call c10d's barrier, because a caller
  // of c10d's barrier must specify the GPU.
  const at::Tensor token = at::zeros({1}, at::TensorOptions(device()));
  auto pending = issue("barrier", token, [&](c10d::Backend& engine) {
    std::vector<at::Tensor> tensors = {token};
    return engine.allreduce(tensors);
  });
  pending.wait();
  if (on_accelerator(token)) token.item<float>();  // blocks the host until the barrier completes
}

void Group::monitored_barrier(std::chrono::milliseconds timeout) const {
  if (size() == 1) return;
  AM_ASSERT(communicator_->cpu, "a monitored barrier needs a host engine");
  const Collective collective = next("monitored_barrier");
  Progress& progress = communicator_->context->progress;
  progress.issued(collective);
  progress.wait_begins(collective);
  c10d::BarrierOptions options;
  options.timeout = timeout;
  guarded(*communicator_, collective, Progress::Clock::now(),
          [&] { communicator_->cpu->monitoredBarrier(options, /*waitAllRanks=*/true); });
  progress.wait_ends();
}

at::Tensor Group::allocate(int64_t numel, const at::TensorOptions& options) const {
  const at::TensorOptions on_device = options.device_opt() ? options : options.device(device());
  const bool registered =
      communicator_ && communicator_->user_buffers && communicator_->accelerator &&
      on_device.device().type() == communicator_->accelerator_engine->device().type() &&
      communicator_->accelerator->supportsTensorAlloc(on_device.device().index());
  return registered ? communicator_->accelerator->allocateTensor(numel, on_device)
                    : at::empty({numel}, on_device);
}

void Group::abort() const {
  if (!communicator_) return;
  for (const auto& engine : {communicator_->cpu, communicator_->accelerator}) {
    if (engine) engine->abort();
  }
}

}  // namespace am::runtime
