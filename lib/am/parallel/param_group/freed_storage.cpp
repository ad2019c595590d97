#include "am/parallel/param_group/freed_storage.h"

#include <ATen/ATen.h>

#include <utility>

namespace am::parallel {

namespace {

// Replaces the memory of a storage by `memory` of `bytes` bytes. Returns the old memory to `pool`,
// or frees it if `pool` is null. ATen's resize is not used, because for GPU storage it copies the
// contents and requires libtorch_cuda.
void set_memory(c10::StorageImpl* storage, c10::DataPtr memory, size_t bytes, BufferPool* pool) {
  const size_t had = storage->nbytes();
  c10::DataPtr old = storage->set_data_ptr(std::move(memory));
  storage->set_nbytes(bytes);
  if (pool != nullptr && had > 0) pool->give(std::move(old), had);
}

}  // namespace

c10::DataPtr BufferPool::take(c10::Allocator& allocator, size_t bytes) {
  auto& free = free_[bytes];
  if (free.empty()) return allocator.allocate(bytes);
  c10::DataPtr memory = std::move(free.back());
  free.pop_back();
  return memory;
}

void BufferPool::give(c10::DataPtr memory, size_t bytes) {
  free_[bytes].push_back(std::move(memory));
}

at::Tensor empty_storage(at::IntArrayRef shape, const at::TensorOptions& options) {
  at::Tensor tensor = at::empty({0}, options);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  return tensor;
}

void fill_storage(const at::Tensor& tensor, BufferPool* pool) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  const size_t bytes = static_cast<size_t>(tensor.numel()) * tensor.element_size();
  if (storage->nbytes() == bytes) return;
  c10::Allocator& allocator = *storage->allocator();
  set_memory(storage, pool != nullptr ? pool->take(allocator, bytes) : allocator.allocate(bytes),
             bytes, pool);
}

void free_storage(const at::Tensor& tensor, BufferPool* pool) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->nbytes() == 0) return;
  set_memory(storage, storage->allocator()->allocate(0), 0, pool);
}

at::Tensor untracked_alias(const at::Tensor& tensor) { return tensor.variable_data(); }

}  // namespace am::parallel
