// Counts the CPU memory of tensors that this thread creates, as PyTorch's allocator reports it to a
// profiler.
//
//   const test::LiveBytes live;
//   const at::Tensor x = at::zeros({256});
//   live.count();  // 1024
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace am::test {

class LiveBytes {
 public:
  LiveBytes() : guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}

  // Returns the bytes allocated since this object was created, minus the bytes freed since then.
  int64_t count() const { return counter_->bytes; }
  // Returns the maximum of count() so far.
  int64_t most() const { return counter_->most; }

 private:
  struct Counter : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void* /*pointer*/, int64_t size, size_t /*allocated*/,
                           size_t /*reserved*/, c10::Device /*device*/) override {
      bytes += size;
      most = std::max(most, bytes);
    }
    bool memoryProfilingEnabled() const override { return true; }

    int64_t bytes = 0, most = 0;
  };

  std::shared_ptr<Counter> counter_ = std::make_shared<Counter>();
  c10::DebugInfoGuard guard_;
};

}  // namespace am::test
