#include "am/checkpoint/read_tensor.h"

#include <ATen/ATen.h>

#include "am/stored/row_blocks.h"
#include "am/tensor/dtype.h"
#include "am/tensor/redistribute.h"

namespace am::checkpoint {

namespace {

// Number of elements that are converted at a time. As float32, they take 1 MiB, which fits into a
// core's cache.
constexpr int64_t kConvertedBlock = int64_t{256} << 10;
// Number of elements that are copied to a device at a time: 32 MiB of float32.
constexpr int64_t kMovedBlock = int64_t{8} << 20;

const stored::StoredTensor& named(const stored::TensorSource& source, std::string_view name) {
  const stored::StoredTensor* found = source.find(name);
  if (found == nullptr) stored::no_tensor(source.path(), name);
  return *found;
}

void read_as_stored(const stored::TensorSource& source, std::string_view name, const mesh::Box& box,
                    const at::Tensor& out) {
  source.read(name, box, {static_cast<std::byte*>(out.mutable_data_ptr()), out.strides().vec()});
}

}  // namespace

void read(const stored::TensorSource& source, std::string_view name, const mesh::Box& box,
          const at::Tensor& out) {
  const at::NoGradGuard no_grad;
  const at::ScalarType dtype = tensor::scalar_type(named(source, name).dtype);
  if (out.is_cpu() && out.scalar_type() == dtype) return read_as_stored(source, name, box, out);
  const int64_t most = out.is_cpu() ? kConvertedBlock : kMovedBlock;
  at::Tensor taken;
  stored::for_each_row_block(box, most, [&](const mesh::Box& block) {
    if (!taken.defined() || taken.sizes() != at::IntArrayRef(block.shape)) {
      taken = at::empty(block.shape, at::TensorOptions(dtype));
    }
    read_as_stored(source, name, block, taken);
    tensor::view_box(out, box.offset, block).copy_(taken);
  });
}

at::Tensor read_all(const stored::TensorSource& source, std::string_view name) {
  const stored::StoredTensor& tensor = named(source, name);
  at::Tensor out = at::empty(tensor.shape, at::TensorOptions(tensor::scalar_type(tensor.dtype)));
  if (out.numel() > 0) read(source, name, mesh::Box::whole(tensor.shape), out);
  return out;
}

}  // namespace am::checkpoint
