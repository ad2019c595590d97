// Tensors whose memory comes and goes while they stay.
//
// Note [Freed storage]: autograd's graph keeps the full tensors that the forward pass used. Freeing
// one means resizing its storage to nothing while the tensor stays; gathering again for backward
// fills the same tensor. The writes go through an alias with a version counter of its own, so that
// autograd does not take them for changes to what it saved.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <map>
#include <vector>

namespace am::parallel {

// Memory that was freed, kept for the next tensor of the same size: with as many buffers as were
// ever alive at once (two, where one unit is gathered while another computes) the allocator is left
// alone. Of one thread; must outlive the tensors that it fills.
class BufferPool {
 public:
  c10::DataPtr take(c10::Allocator& allocator, size_t bytes);
  void give(c10::DataPtr memory, size_t bytes);

 private:
  std::map<size_t, std::vector<c10::DataPtr>> free_;  // by bytes
};

// A tensor without memory. Contiguous.
at::Tensor empty_storage(at::IntArrayRef shape, const at::TensorOptions& options);
// Memory for all of the tensor, its contents unset; nothing where it has it. From `pool`, unless
// null.
void fill_storage(const at::Tensor& tensor, BufferPool* pool);
// The tensor has no memory any more.
void free_storage(const at::Tensor& tensor, BufferPool* pool);

// The same memory; writes to it are no changes of `tensor` to autograd.
at::Tensor untracked_alias(const at::Tensor& tensor);

}  // namespace am::parallel
