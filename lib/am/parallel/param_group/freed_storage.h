// Tensors whose memory is freed and allocated again while autograd references them.
//
// Note [Freed storage]: autograd's graph keeps the full tensors that the forward pass used. Freeing
// one resizes its storage to 0 bytes and keeps the tensor; gathering again for backward fills the
// same tensor. The writes go through an alias with a separate version counter, so that autograd
// does not see them as changes to saved tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <map>
#include <vector>

namespace am::parallel {

// Keeps freed memory for the next tensor of equal size. The pool allocates as many buffers as are
// alive at the same time (two, if one unit is gathered while another computes). Not thread-safe.
// Must outlive the tensors that get memory from it.
class BufferPool {
 public:
  c10::DataPtr take(c10::Allocator& allocator, size_t bytes);
  void give(c10::DataPtr memory, size_t bytes);

 private:
  std::map<size_t, std::vector<c10::DataPtr>> free_;  // freed buffers, by their size in bytes
};

// Returns a contiguous tensor whose storage is empty.
at::Tensor empty_storage(at::IntArrayRef shape, const at::TensorOptions& options);
// Allocates the tensor's memory, uninitialised, unless the tensor has memory already. Takes the
// memory from `pool`, unless `pool` is null.
void fill_storage(const at::Tensor& tensor, BufferPool* pool);
// Frees the tensor's memory, or gives it to `pool`, unless `pool` is null.
void free_storage(const at::Tensor& tensor, BufferPool* pool);

// Returns an alias of `tensor`. Autograd does not count writes to the alias as changes of `tensor`.
at::Tensor untracked_alias(const at::Tensor& tensor);

}  // namespace am::parallel
