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
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <utility>

#include "am/runtime/gloo_engine.h"
#include "am/runtime/staged_engine.h"

namespace am::test {

namespace {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex kDevices = 8;

thread_local c10::DeviceIndex current_index = 0;
c10::Device current() { return {kType, current_index}; }

// Copies between host and device that are still to happen, of one device, in order.
class Stream {
 public:
  void queue(std::function<void()> copy) {
    const std::lock_guard lock(mutex_);
    copies_.push_back(std::move(copy));
  }
  // A copy that ends may free the last tensor of a memory, and so come here again.
  void flush() {
    const std::lock_guard lock(mutex_);
    while (!copies_.empty()) {
      const std::function<void()> next = std::move(copies_.front());
      copies_.pop_front();
      next();
    }
  }

 private:
  std::recursive_mutex mutex_;
  std::deque<std::function<void()>> copies_;
};

Stream& stream_of(c10::DeviceIndex index) {
  static auto* const streams = new std::array<Stream, kDevices>();  // outlives all tensors
  return streams->at(static_cast<size_t>(index));
}

// A piece of host memory. It is freed when the copies that were queued before are over.
struct Block {
  void* start;
  c10::DeviceIndex device;

  static void free(void* block) {
    const std::unique_ptr<Block> owner(static_cast<Block*>(block));
    stream_of(owner->device).flush();
    std::free(owner->start);
  }
};

class HostMemory final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    constexpr size_t kAlignment = 64;
    if (bytes == 0) return {nullptr, current()};
    void* start =
        std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    return {start, new Block{start, current_index}, &Block::free, current()};
  }
  void copy_data(void* to, const void* from, size_t count) const override {
    stream_of(current_index).flush();
    std::memcpy(to, from, count);
  }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {}
  void recordStream(const c10::DataPtr& /*memory*/, c10::Stream /*stream*/) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex /*device*/) override {
    return {};  // nobody counts
  }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex /*device*/) override {}
};

HostMemory host_memory;
REGISTER_ALLOCATOR(kType, &host_memory)

// One stream a device.
struct Guard final : public c10::impl::NoOpDeviceGuardImpl<kType> {
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = current();
    uncheckedSetDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return current(); }
  void setDevice(c10::Device device) const override { uncheckedSetDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) current_index = device.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
  c10::Stream getStream(c10::Device device) const noexcept override { return stream(device); }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }
  void synchronizeStream(const c10::Stream& stream) const override {
    stream_of(stream.device_index()).flush();
  }
  void record(void**, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}

 private:
  static c10::Stream stream(c10::Device device) {
    return c10::Stream(c10::Stream::DEFAULT, device.has_index() ? device : current());
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

// What the autograd engine asks of an accelerator.
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

// The same memory as a host tensor.
at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions(tensor.scalar_type()));
}

// The one operator that takes two devices. What is queued holds the host's tensor; the device's
// memory waits for it (Block).
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  auto copy = [there = on_host(to), here = on_host(from)] {
    const at::AutoDispatchBelowADInplaceOrView raw;
    there.copy_(here);
  };
  if (non_blocking && from.is_cpu() != to.is_cpu()) {
    stream_of((from.is_cpu() ? to : from).device().index()).queue(std::move(copy));
    return to;
  }
  for (const at::Tensor& tensor : {from, to}) {
    if (!tensor.is_cpu()) stream_of(tensor.device().index()).flush();
  }
  copy();
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) at::native::resize_(to, from.sizes());
  return copy_from(from, to, false);
}

// Host scalars are welcome anywhere, as with a GPU.
void check_devices(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
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
}

void compute_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  check_devices(op, *stack);
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&compute_on_host>());
}

// What makes memory and looks at it in other ways.
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
  // Else a composite, with other roundings.
  library.impl("silu_backward", torch::CppFunction::makeFromBoxedFunction<&compute_on_host>());
}

// Attention by the host's operator.
int64_t choose_attention(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                         const std::optional<at::Tensor>&, double, bool, std::optional<double>,
                         bool) {
  return static_cast<int64_t>(at::SDPBackend::flash_attention);
}

}  // namespace

c10::Device stand_in_device(int64_t index) {
  // From now on it is this process's accelerator.
  static const bool once = [] {
    c10::register_privateuse1_backend("stand_in");
    static Hooks hooks;
    at::RegisterPrivateUse1HooksInterface(&hooks);
    return true;
  }();
  static_cast<void>(once);
  return {kType, static_cast<c10::DeviceIndex>(index)};
}

void run_stand_ins(int64_t size, const std::function<void(const runtime::World&)>& body,
                   std::chrono::milliseconds timeout) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  runtime::run_threads(size, [&](int64_t rank) {
    launch::RankEnvironment here;
    here.rank = here.local_rank = rank;
    here.world_size = here.local_world_size = size;
    here.launcher = "local";
    const c10::DeviceGuard guard(stand_in_device(rank));
    body(runtime::World::meet_in(here, store, {.timeout = timeout},
                                 {.accelerator = make_staged_engine(runtime::make_gloo_engine(here),
                                                                    guard.current_device())}));
  });
}

}  // namespace am::test

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &am::test::choose_attention)

}  // namespace at::native
