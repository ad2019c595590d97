#include "am/tensor/memory_meter.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <numeric>
#include <unordered_map>
#include <utility>

namespace am::tensor {

namespace {

thread_local TensorUse current_use = TensorUse::kActivations;

// Allocator of the meta device. Allocates no memory, but reports sizes to the profiler as the
// host's allocator does. PyTorch's own meta allocator reports nothing.
class MetaAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device meta(c10::kMeta);
    if (!c10::memoryProfilingEnabled())
      return {nullptr, nullptr, &c10::detail::deleteNothing, meta};
    auto* size = new size_t(bytes);  // owned by the DataPtr, whose deleter is `give_back`
    c10::reportMemoryUsageToProfiler(size, static_cast<int64_t>(bytes), 0, 0, meta);
    return {nullptr, size, &give_back, meta};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* /*to*/, const void* /*from*/, std::size_t /*count*/) const override {}

 private:
  static void give_back(void* context) {
    auto* size = static_cast<size_t*>(context);
    c10::reportMemoryUsageToProfiler(size, -static_cast<int64_t>(*size), 0, 0,
                                     c10::Device(c10::kMeta));
    delete size;
  }
};

void install_meta_allocator() {
  static MetaAllocator allocator;
  static const bool once = [] {
    c10::SetAllocator(c10::kMeta, &allocator, /*priority=*/1);
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace

const std::array<const char*, kTensorUses> kTensorUseNames = {
    "activations", "parameters", "gradients",     "optimizer",
    "logits",      "unsharded",  "communication", "other"};

MemoryUse::MemoryUse(TensorUse use) : outer_(std::exchange(current_use, use)) {}
MemoryUse::~MemoryUse() { current_use = outer_; }

int64_t MemoryBytes::total() const {
  return std::accumulate(bytes.begin(), bytes.begin() + kTensorUses, int64_t{0});
}

class MemoryMeter::Reports : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* block, int64_t bytes, size_t /*allocated*/, size_t /*reserved*/,
                         c10::Device /*device*/) override {
    if (bytes >= 0) {
      uses_[block] = current_use;
      add(current_use, bytes);
      return;
    }
    const auto made = uses_.find(block);
    if (made == uses_.end()) return;  // the block was allocated before the meter was created
    add(made->second, bytes);
    uses_.erase(made);
  }
  bool memoryProfilingEnabled() const override { return true; }

  MemoryBytes live, peak;

 private:
  void add(TensorUse use, int64_t bytes) {
    live.bytes[static_cast<size_t>(use)] += bytes;
    if (live.total() > peak.total()) peak = live;
  }

  std::unordered_map<void*, TensorUse> uses_;
};

class MemoryMeter::Guard {
 public:
  explicit Guard(std::shared_ptr<Reports> reports)
      : guard_(c10::DebugInfoKind::PROFILER_STATE, std::move(reports)) {}

 private:
  c10::DebugInfoGuard guard_;
};

MemoryMeter::MemoryMeter() : reports_(std::make_shared<Reports>()) {
  install_meta_allocator();
  guard_ = std::make_unique<Guard>(reports_);
}

MemoryMeter::~MemoryMeter() = default;

const MemoryBytes& MemoryMeter::live() const { return reports_->live; }
const MemoryBytes& MemoryMeter::peak() const { return reports_->peak; }

}  // namespace am::tensor
