#include "support/stand_in_device.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <utility>
#include <vector>

#include "am/base/text.h"
#include "am/runtime/gloo_engine.h"
#include "am/runtime/staged_engine.h"
#include "support/stand_in_engine.h"
#include "support/stand_in_streams.h"

namespace am::test {

namespace {

// A block of host memory that belongs to a stand-in device. The device's queued copies run before
// the block is freed.
struct Block {
  void* start;
  c10::Device device;

  static void free(void* block) {
    const std::unique_ptr<Block> owner(static_cast<Block*>(block));
    finish_all_copies(owner->device);
    stream_order(owner->device).free(owner->start);
    std::free(owner->start);
  }
};

std::atomic<int64_t> allocations_left{-1};

class HostMemory final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    constexpr size_t kAlignment = 64;
    const c10::Device device = current_stand_in();
    if (bytes == 0) return {nullptr, device};
    if (allocations_left == 0) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, "stand_in out of memory, ", bytes, " bytes wanted");
    }
    if (allocations_left > 0) --allocations_left;
    void* start =
        std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    stream_order(device).allocate(start, bytes, static_cast<size_t>(current_stream(device).id()));
    return {start, new Block{start, device}, &Block::free, device};
  }
  void copy_data(void* to, const void* from, size_t count) const override {
    finish_copies(current_stand_in());
    std::memcpy(to, from, count);
  }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {}
  void recordStream(const c10::DataPtr& /*memory*/, c10::Stream /*stream*/) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex /*device*/) override {
    return {};  // no statistics are kept
  }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex /*device*/) override {}
};

HostMemory host_memory;
REGISTER_ALLOCATOR(kStandIn, &host_memory)

// Hooks that the autograd engine calls for an accelerator.
struct Hooks final : public at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return true; }
};

const c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(size, &host_memory, kKeys, dtype.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device> device, std::optional<bool>) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(size, stride, &host_memory, kKeys,
                                           dtype.value_or(at::kFloat));
}

// Returns a host tensor on the memory of a stand-in device's tensor.
at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions(tensor.scalar_type()));
}

// Copies within a device, or between a device and the host. Only this operator may have operands on
// two devices. A queued copy keeps the host tensor alive; Block::free runs the copies that are
// queued for the device's memory.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  auto copy = [there = on_host(to), here = on_host(from)] {
    const at::AutoDispatchBelowADInplaceOrView raw;
    there.copy_(here);
  };
  note_work("copy_", {from}, {to});
  const bool crosses = from.is_cpu() != to.is_cpu();
  const c10::Device device = (from.is_cpu() ? to : from).device();
  if (non_blocking && crosses) {
    queue_copy(device, std::move(copy));
    return to;
  }
  for (const at::Tensor& tensor : {from, to}) {
    if (!tensor.is_cpu()) finish_copies(tensor.device());
  }
  copy();
  if (crosses) wait_for_stream(device);
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) at::native::resize_(to, from.sizes());
  return copy_from(from, to, false);
}

// Returns the device of the operands. Throws if operands are on different devices; host tensors
// without dims are accepted on any device, as with a GPU.
c10::Device check_devices(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  std::optional<c10::Device> device;
  const auto check = [&](const at::Tensor& tensor) {
    if (!tensor.defined() || (tensor.is_cpu() && tensor.dim() == 0)) return;
    if (!device) device = tensor.device();
    TORCH_CHECK(*device == tensor.device(), op.schema().name(),
                ": Expected all tensors to be on the same device, but found at least two devices, ",
                *device, " and ", tensor.device());
  };
  for (const c10::IValue& value : torch::jit::last(stack, op.schema().arguments().size())) {
    if (value.isTensor()) check(value.toTensor());
    if (!value.isTensorList()) continue;
    for (const at::Tensor& tensor : value.toTensorVector()) check(tensor);
  }
  return device.value_or(current_stand_in());
}

// Records the operator in the device's StreamOrder, with the tensors that its schema declares as
// read and as written.
void note_operator(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const auto values = torch::jit::last(stack, arguments.size());
  std::vector<at::Tensor> read, written;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = arguments[i].alias_info();
    std::vector<at::Tensor>& to = alias != nullptr && alias->isWrite() ? written : read;
    if (values[i].isTensor()) to.push_back(values[i].toTensor());
    if (values[i].isTensorList()) {
      for (const at::Tensor& tensor : values[i].toTensorVector()) to.push_back(tensor);
    }
  }
  note_work(op.schema().name(), read, written);
}

// Returns whether the host reads the operator's result, as with item(), and therefore waits for the
// stream.
bool answers_the_host(const c10::OperatorHandle& op) {
  static const std::set<std::string> names = {"aten::_local_scalar_dense", "aten::equal",
                                              "aten::nonzero", "aten::masked_select"};
  return names.count(op.schema().name()) > 0;
}

void compute_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::Device device = check_devices(op, *stack);
  note_operator(op, *stack);
  const bool waits = answers_the_host(op);
  {
    const Unnoted inside;
    at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
  }
  if (waits) wait_for_stream(device);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&compute_on_host>());
}

// Registers the operators that allocate or view memory, which cannot run as operators of the host.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
  library.impl("unfold", &at::native::unfold);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("resize_", &at::native::resize_);
  library.impl("set_.source_Storage_storage_offset", &at::native::set_storage_cpu_);
  // Without this registration, ATen would use a composite of other operators, which rounds
  // differently.
  library.impl("silu_backward", torch::CppFunction::makeFromBoxedFunction<&compute_on_host>());
}

// Selects flash attention, which runs as an operator of the host.
int64_t choose_attention(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                         const std::optional<at::Tensor>&, double, bool, std::optional<double>,
                         bool) {
  return static_cast<int64_t>(at::SDPBackend::flash_attention);
}

}  // namespace

c10::Device stand_in_device(int64_t index) {
  // Registers the device as this process's accelerator, once.
  static const bool once = [] {
    c10::register_privateuse1_backend("stand_in");
    static Hooks hooks;
    at::RegisterPrivateUse1HooksInterface(&hooks);
    return true;
  }();
  static_cast<void>(once);
  return {kStandIn, static_cast<c10::DeviceIndex>(index)};
}

void limit_allocations(int64_t count) { allocations_left = count; }

void run_stand_ins(int64_t size, const std::function<void(const runtime::World&)>& body,
                   std::chrono::milliseconds timeout) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  for (int64_t rank = 0; rank < size; ++rank) stream_order(stand_in_device(rank)).take_races();
  runtime::run_threads(size, [&](int64_t rank) {
    launch::RankEnvironment here;
    here.rank = here.local_rank = rank;
    here.world_size = here.local_world_size = size;
    here.launcher = "local";
    const c10::DeviceGuard guard(stand_in_device(rank));
    body(runtime::World::meet_in(here, store, {.timeout = timeout},
                                 {.accelerator = in_nccl_order(make_staged_engine(
                                      runtime::make_gloo_engine(here), guard.current_device()))}));
  });
  for (int64_t rank = 0; rank < size; ++rank) {
    const auto races = stream_order(stand_in_device(rank)).take_races();
    if (!races.empty()) throw std::logic_error(cat("rank ", rank, ": ", join(races, "; ")));
  }
}

}  // namespace am::test

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &am::test::choose_attention)

}  // namespace at::native
