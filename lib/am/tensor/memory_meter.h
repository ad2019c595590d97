// Counts the bytes of the tensors that this thread allocates: live and peak bytes, by use.
//
//   MemoryMeter meter;
//   { MemoryUse use(TensorUse::kUnsharded); full = at::empty(shape); }   // counted under that name
//   meter.peak().total();
//
// Counts tensors on the host and on the meta device. Meta tensors have sizes but no memory: a step
// on the meta device shows what a step on a real device would allocate, except the scratch memory
// of some kernels. Counts storages, so views add nothing. A thread may use one meter at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

namespace am::tensor {

enum class TensorUse {
  kActivations,  // all tensors without another use
  kParameters,
  kGradients,
  kOptimizer,
  kLogits,
  kUnsharded,
  kCommunication,
  kOther,  // for example tables, and staging buffers on the host
  kHost,   // offloaded tensors: in host memory while a GPU computes; not part of any total
};
inline constexpr size_t kTensorUses = 8;  // number of uses, without kHost
// Names of the uses except kHost, indexed by TensorUse: "activations", ...
extern const std::array<const char*, kTensorUses> kTensorUseNames;

// Sets the use of the tensors that this thread allocates while the object exists. Costs almost
// nothing without a meter.
class [[nodiscard]] MemoryUse {
 public:
  explicit MemoryUse(TensorUse use);
  ~MemoryUse();
  MemoryUse(const MemoryUse&) = delete;
  MemoryUse& operator=(const MemoryUse&) = delete;

 private:
  TensorUse outer_;
};

// Bytes of tensors, indexed by TensorUse.
struct MemoryBytes {
  std::array<int64_t, kTensorUses + 1> bytes = {};

  int64_t of(TensorUse use) const { return bytes[static_cast<size_t>(use)]; }
  int64_t total() const;  // sum over all uses except kHost
};

class MemoryMeter {
 public:
  MemoryMeter();
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  // Returns the bytes of the live tensors that were allocated since the meter was created.
  const MemoryBytes& live() const;
  // Returns the value that live() had when its total was largest.
  const MemoryBytes& peak() const;

 private:
  class Reports;
  class Guard;
  std::shared_ptr<Reports> reports_;
  std::unique_ptr<Guard> guard_;
};

}  // namespace am::tensor
