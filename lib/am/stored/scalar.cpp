#include "am/stored/scalar.h"

#include <cstdint>

namespace am::stored {

namespace {

template <typename T>
double value_of(const TensorSource& source, const StoredTensor& tensor) {
  T value{};
  source.read(tensor.name, mesh::Box::whole(tensor.shape),
              {reinterpret_cast<std::byte*>(&value), dense_strides(tensor.shape)});
  return static_cast<double>(value);
}

}  // namespace

std::optional<double> scalar(const TensorSource& source, std::string_view name) {
  const StoredTensor* tensor = source.find(name);
  if (tensor == nullptr || tensor->numel() != 1) return std::nullopt;
  switch (tensor->dtype) {
    case formats::Dtype::kFloat32:
      return value_of<float>(source, *tensor);
    case formats::Dtype::kFloat64:
      return value_of<double>(source, *tensor);
    case formats::Dtype::kInt32:
      return value_of<int32_t>(source, *tensor);
    case formats::Dtype::kInt64:
      return value_of<int64_t>(source, *tensor);
    default:
      return std::nullopt;
  }
}

}  // namespace am::stored
