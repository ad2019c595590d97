// What torch.save writes: a zip archive of a pickle (`data.pkl`) and the storages of its tensors
// (`data/0`, ...). A .pt or .bin file, or a slice of PyTorch's distributed checkpoints. Files of
// its older format are read as the same (torch_legacy.h).
//
//   const auto archive = TorchArchive::read(bytes, "weights.pt");
//   const PickleValue* weight = archive.root().find("fc.weight");
//   const auto tensor = archive.tensor(*weight);      // its dtype, shape, strides and bytes
//
// Legend: a dtype is torch's name without the module ("bfloat16").
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

// Bytes of an element of a dtype by torch's name; 0 for an unknown one.
int64_t torch_dtype_size(std::string_view dtype);
// "FloatStorage" of "float32": the class of torch's that holds such elements; empty where there is
// none, as of float8_e4m3fn.
std::string_view torch_storage_class(std::string_view dtype);

// The same of a storage's class, torch.FloatStorage; 1 of torch.storage.UntypedStorage.
int64_t storage_element_size(const PickleValue& storage_class);

// A strided view of a storage, checked to lie inside it.
struct TorchTensor {
  std::string_view dtype;
  Shape shape;
  Shape strides;  // in elements, not negative
  // From the view's first element on; of no alignment.
  std::span<const std::byte> data;
};

class TorchArchive {
 public:
  // `bytes` must outlive the archive. Throws Error(kFormat), which `where` begins: no archive, a
  // byte order other than little, a pickle that cannot be read.
  static TorchArchive read(std::span<const std::byte> bytes, const std::string& where);

  const PickleValue& root() const { return pickle_.root(); }
  const Pickle& pickle() const { return pickle_; }
  // Nothing when the value is no tensor; attributes that Python code has given one are left out.
  // Throws Error(kFormat) for one that lies: a view beyond its storage, a storage of another size
  // than its record, an unknown dtype.
  std::optional<TorchTensor> tensor(const PickleValue& value) const;

 private:
  explicit TorchArchive(Pickle pickle) : pickle_(std::move(pickle)) {}

  [[noreturn]] void fail(const std::string& what) const;
  TorchTensor strided(std::span<const PickleValue> arguments) const;

  std::string where_;
  Pickle pickle_;
  std::unordered_map<std::string_view, std::span<const std::byte>> storages_;  // by key
};

// "float32" of the global torch.float32; empty for any other.
std::string_view dtype_of_global(const PickleValue& value);
// The numbers of a tuple, list or torch.Size; nothing when there are others, or negative ones.
std::optional<Shape> shape_of(const PickleValue& value);

}  // namespace am::formats
