// Reads archives of torch.save: zip archives of a pickle (`data.pkl`) and the storages of its
// tensors (`data/0`, ...). A .pt or .bin file is one archive. A data file of
// torch.distributed.checkpoint contains one archive for each part of a tensor. Also reads files in
// torch.save's format before PyTorch 1.6 (torch_legacy.h).
//
//   const auto archive = TorchArchive::read(bytes, "weights.pt");
//   const PickleValue* weight = archive.root().find("fc.weight");
//   const auto tensor = archive.tensor(*weight);      // its dtype, shape, strides and bytes
//
// Dtypes are named as in torch, without the module, for example "bfloat16".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "am/base/shape.h"
#include "am/formats/pickle.h"

namespace am::formats {

// Returns the number of bytes per element of a dtype; 0 for an unknown name.
int64_t torch_dtype_size(std::string_view dtype);
// Returns the name of torch's storage class for a dtype, for example "FloatStorage" for "float32";
// empty if there is none, as for float8_e4m3fn.
std::string_view torch_storage_class(std::string_view dtype);

// Returns the number of bytes per element of a storage class such as torch.FloatStorage; 1 for
// torch.storage.UntypedStorage, 0 for an unknown class.
int64_t storage_element_size(const PickleValue& storage_class);

// A strided view of a storage. All elements of the view lie inside the storage.
struct TorchTensor {
  std::string_view dtype;
  Shape shape;
  Shape strides;  // in elements, none of them negative
  // The bytes from the view's first element to its last; possibly unaligned.
  std::span<const std::byte> data;
};

class TorchArchive {
 public:
  // Reads an archive; `bytes` must outlive the result. Throws Error(kFormat), with a message that
  // begins with `where`, if `bytes` are not an archive, are not little-endian, or contain an
  // invalid pickle.
  static TorchArchive read(std::span<const std::byte> bytes, const std::string& where);

  const PickleValue& root() const { return pickle_.root(); }
  const Pickle& pickle() const { return pickle_; }
  // Returns the tensor that a value of the pickle describes; nullopt if the value is not a dense
  // tensor. Python attributes of the tensor are ignored. Throws Error(kFormat) for an inconsistent
  // tensor: a view beyond its storage, a missing storage, an unknown dtype.
  std::optional<TorchTensor> tensor(const PickleValue& value) const;

 private:
  explicit TorchArchive(Pickle pickle) : pickle_(std::move(pickle)) {}

  [[noreturn]] void fail(const std::string& what) const;
  TorchTensor strided(std::span<const PickleValue> arguments) const;

  std::string where_;
  Pickle pickle_;
  // Bytes of each storage, by the storage's key.
  std::unordered_map<std::string_view, std::span<const std::byte>> storages_;
};

// Returns the name of the dtype that a pickled global refers to, for example "float32" for
// torch.float32; empty for any other value.
std::string_view dtype_of_global(const PickleValue& value);
// Returns the numbers in a pickled tuple, list or torch.Size; nullopt for any other value, for more
// than 64 elements, or if an element is not a non-negative integer.
std::optional<Shape> shape_of(const PickleValue& value);

}  // namespace am::formats
