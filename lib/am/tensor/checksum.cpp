#include "am/tensor/checksum.h"

#include <ATen/ATen.h>

#include "am/base/error.h"
#include "am/base/random.h"
#include "am/mesh/indices.h"

namespace am::tensor {
namespace {

template <typename Word>
uint64_t sum_of_run(const Word* words, int64_t count, int64_t first) {
  uint64_t sum = 0;
  auto place = (static_cast<uint64_t>(first) + 1) * kGoldenRatio;
  for (int64_t i = 0; i < count; ++i, place += kGoldenRatio) {
    sum += finalized(place ^ static_cast<uint64_t>(words[i]));
  }
  return sum;
}

template <typename Word>
uint64_t sum_of_box(const void* data, const mesh::Box& box, const Shape& shape) {
  // Number of consecutive elements of the box that are contiguous in the tensor. It is the product
  // of the box's sizes in the last dims, from the last dim in which the box is smaller than the
  // tensor.
  int64_t run = 1;
  for (size_t dim = shape.size(); dim-- > 0;) {
    run *= box.shape[dim];
    if (box.shape[dim] != shape[dim]) break;
  }
  const auto* words = static_cast<const Word*>(data);
  const int64_t count = box.numel();
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; i += run) {
    sum += sum_of_run(words + i, run, mesh::flat_index(box, shape, i));
  }
  return sum;
}

at::Tensor real_parts(const at::Tensor& values) {
  return (values.is_complex() ? at::view_as_real(values.resolve_conj()) : values).contiguous();
}

}  // namespace

uint64_t checksum(const at::Tensor& values, const mesh::Box& box, const Shape& shape) {
  if (box.numel() == 0) return 0;
  const at::Tensor words = real_parts(values.cpu());
  mesh::Box words_box = box;
  Shape words_shape = shape;
  if (values.is_complex()) {
    words_box.offset.push_back(0);
    words_box.shape.push_back(2);
    words_shape.push_back(2);
  }
  const void* data = words.const_data_ptr();
  switch (words.element_size()) {
    case 1:
      return sum_of_box<uint8_t>(data, words_box, words_shape);
    case 2:
      return sum_of_box<uint16_t>(data, words_box, words_shape);
    case 4:
      return sum_of_box<uint32_t>(data, words_box, words_shape);
    case 8:
      return sum_of_box<uint64_t>(data, words_box, words_shape);
    default:
      throw Error(ErrorKind::kUsage, "a checksum needs elements of 1, 2, 4 or 8 bytes");
  }
}

std::string checksum_text(uint64_t sum, const Shape& shape, at::ScalarType dtype) {
  uint64_t state = finalized(sum + static_cast<uint64_t>(dtype));
  for (const int64_t size : shape) state = chained(state, static_cast<uint64_t>(size));
  return hash_text(state);
}

at::Tensor bits_of(const at::Tensor& values) {
  const at::Tensor words = real_parts(values.cpu()).reshape({-1});
  switch (words.element_size()) {
    case 1:
      return words.view(at::kByte).to(at::kLong);
    case 2:
      return words.view(at::kShort).to(at::kLong);
    case 4:
      return words.view(at::kInt).to(at::kLong);
    default:
      return words.view(at::kLong);
  }
}

}  // namespace am::tensor
