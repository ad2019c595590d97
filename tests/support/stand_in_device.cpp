#include "support/stand_in_device.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstdlib>
#include <cstring>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

namespace am::test {

namespace {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex kDevices = 8;

thread_local c10::DeviceIndex current_index = 0;
c10::Device current() { return {kType, current_index}; }

class HostMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    constexpr size_t kAlignment = 64;
    void* start = bytes == 0 ? nullptr
                             : std::aligned_alloc(
                                   kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    return {start, start, &std::free, current()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, size_t count) const override {
    std::memcpy(to, from, count);
  }
};

HostMemory host_memory;
REGISTER_ALLOCATOR(kType, &host_memory)

// One stream a device, on which everything is over at once.
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

// The one operator that takes two devices.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool /*non_blocking*/) {
  on_host(to).copy_(on_host(from));
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
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("resize_", &at::native::resize_);
  library.impl("set_.source_Storage_storage_offset", &at::native::set_storage_cpu_);
}

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

// A host engine that takes the device's tensors for host tensors.
class HostEngine final : public c10d::Backend {
 public:
  explicit HostEngine(c10::intrusive_ptr<c10d::Backend> host)
      : Backend(host->getRank(), host->getSize()), host_(std::move(host)) {}

  const std::string getBackendName() const override { return host_->getBackendName(); }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    Tensors same = {on_host(tensors[0])};
    return host_->allreduce(same, options);
  }
  WorkPtr _allgather_base(at::Tensor& out, at::Tensor& in,
                          const c10d::AllgatherOptions& options) override {
    at::Tensor host_out = on_host(out);
    at::Tensor host_in = on_host(in);
    return host_->_allgather_base(host_out, host_in, options);
  }
  WorkPtr _reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                               const c10d::ReduceScatterOptions& options) override {
    at::Tensor host_out = on_host(out);
    at::Tensor host_in = on_host(in);
    return host_->_reduce_scatter_base(host_out, host_in, options);
  }

 private:
  c10::intrusive_ptr<c10d::Backend> host_;
};

}  // namespace

void exchange_between_stand_ins(const runtime::DeviceMesh& mesh) {
  for (const char* name : {"dp_shard_cp", "dp_replicate", "dp_cp", "tp", "dp", "world"}) {
    const auto& communicator = mesh.group(name).communicator();
    if (!communicator || dynamic_cast<HostEngine*>(communicator->cpu.get()) != nullptr) continue;
    communicator->cpu = c10::make_intrusive<HostEngine>(communicator->cpu);
  }
}

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

}  // namespace am::test
