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

// Keeps freed memory for the next tensor of the same size. It allocates as many buffers as are
// alive at the same time (two, if one unit is gathered while another computes). Not thread-safe.
// Must outlive the tensors that it fills.
class BufferPool {
 public:
  c10::DataPtr take(c10::Allocator& allocator, size_t bytes);
  void give(c10::DataPtr memory, size_t bytes);

 private:
  std::map<size_t, std::vector<c10::DataPtr>> free_;  // by bytes
};

// Returns a contiguous tensor whose storage is empty.
at::Tensor empty_storage(at::IntArrayRef shape, const at::TensorOptions& options);
// Allocates the tensor's memory, uninitialised, unless it has memory already. Uses `pool` unless
// null.
void fill_storage(const at::Tensor& tensor, BufferPool* pool);
// Frees the tensor's memory, into `pool` unless null.
void free_storage(const at::Tensor& tensor, BufferPool* pool);

// Returns an alias of `tensor`; autograd does not count writes to it as changes of `tensor`.
at::Tensor untracked_alias(const at::Tensor& tensor);

}  // namespace am::parallel
