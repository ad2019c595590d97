// Tensors whose memory is freed and allocated again while autograd references them.
//
// Note [Freed storage]: autograd's graph keeps the full tensors that the forward pass used. Freeing
// a full tensor resizes its storage to 0 bytes and keeps the tensor; the gather for backward fills
// the same tensor. The gather writes through an alias with a separate version counter, so that
// autograd does not detect a change of a saved tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <map>
#include <vector>

namespace am::parallel {

// Keeps freed buffers for later tensors of equal size. For each size, a pool allocates as many
// buffers as are ever in use at the same time: two, if one unit is gathered while another computes.
// Not thread-safe. A pool must outlive the tensors that use its memory.
class BufferPool {
 public:
  // Returns a freed buffer of `bytes` bytes, or new memory of the allocator if there is none.
  c10::DataPtr take(c10::Allocator& allocator, size_t bytes);
  // Stores a buffer for later calls of take() with this size.
  void give(c10::DataPtr memory, size_t bytes);

 private:
  std::map<size_t, std::vector<c10::DataPtr>> free_;  // freed buffers, by their size in bytes
};

// Returns a contiguous tensor whose storage is empty.
at::Tensor empty_storage(at::IntArrayRef shape, const at::TensorOptions& options);
// Allocates uninitialised memory for a tensor of empty_storage(): from `pool`, or from the
// allocator if `pool` is null. Does nothing if the tensor already has memory.
void fill_storage(const at::Tensor& tensor, BufferPool* pool);
// Moves the tensor's memory to `pool`, or frees the memory if `pool` is null. The tensor remains.
void free_storage(const at::Tensor& tensor, BufferPool* pool);

// Returns an alias of `tensor`. Autograd does not count writes to the alias as changes of `tensor`.
at::Tensor untracked_alias(const at::Tensor& tensor);

}  // namespace am::parallel
