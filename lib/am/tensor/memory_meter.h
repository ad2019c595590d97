// Counts the bytes of tensors that this thread makes: what is alive, the most that ever was, and
// what it was for.
//
//   MemoryMeter meter;
//   { MemoryUse use(TensorUse::kUnsharded); full = at::empty(...); }   // counted under that name
//   meter.peak().total();
//
// Host tensors and those of the meta device, which have a size and no memory: a step there tells
// what a step on a device would allocate, short of what its kernels need inside. Storage is
// counted, so views are free. Only one meter at a time on a thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

namespace am::tensor {

enum class TensorUse {
  kActivations,  // whatever nobody gave another use
  kParameters,
  kGradients,
  kOptimizer,
  kLogits,
  kUnsharded,
  kCommunication,
  kOther,  // tables
  kHost,   // offloaded: in host memory while a GPU computes; no part of any total
};
inline constexpr size_t kTensorUses = 8;  // without kHost
// "activations", ..., by TensorUse.
extern const std::array<const char*, kTensorUses> kTensorUseNames;

// What the tensors that this thread makes inside the scope are for. Costs nothing without a meter.
class [[nodiscard]] MemoryUse {
 public:
  explicit MemoryUse(TensorUse use);
  ~MemoryUse();
  MemoryUse(const MemoryUse&) = delete;
  MemoryUse& operator=(const MemoryUse&) = delete;

 private:
  TensorUse outer_;
};

// By TensorUse.
struct MemoryBytes {
  std::array<int64_t, kTensorUses + 1> bytes = {};

  int64_t of(TensorUse use) const { return bytes[static_cast<size_t>(use)]; }
  int64_t total() const;
};

class MemoryMeter {
 public:
  MemoryMeter();
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  // Made since the meter began and alive.
  const MemoryBytes& live() const;
  // The same at the moment of the largest total.
  const MemoryBytes& peak() const;

 private:
  class Reports;
  class Guard;
  std::shared_ptr<Reports> reports_;
  std::unique_ptr<Guard> guard_;
};

}  // namespace am::tensor
