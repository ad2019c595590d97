#include "am/formats/torch_archive.h"

#include <array>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/formats/torch_legacy.h"
#include "am/formats/zip_records.h"

namespace am::formats {

namespace {

struct TorchDtype {
  std::string_view name;
  std::string_view storage;  // name of torch's storage class; empty: torch has none
  int64_t size;
};

constexpr std::array<TorchDtype, 22> kTorchDtypes = {{
    {"float32", "FloatStorage", 4},
    {"bfloat16", "BFloat16Storage", 2},
    {"float16", "HalfStorage", 2},
    {"float64", "DoubleStorage", 8},
    {"int64", "LongStorage", 8},
    {"int32", "IntStorage", 4},
    {"int16", "ShortStorage", 2},
    {"int8", "CharStorage", 1},
    {"uint8", "ByteStorage", 1},
    {"bool", "BoolStorage", 1},
    {"complex64", "ComplexFloatStorage", 8},
    {"complex128", "ComplexDoubleStorage", 16},
    {"uint16", "", 2},
    {"uint32", "", 4},
    {"uint64", "", 8},
    {"float8_e4m3fn", "", 1},
    {"float8_e5m2", "", 1},
    {"float8_e4m3fnuz", "", 1},
    {"float8_e5m2fnuz", "", 1},
    {"float8_e8m0fnu", "", 1},
    {"float4_e2m1fn_x2", "", 1},
    {"complex32", "", 4},
}};

constexpr size_t kMostTorchDims = 64;  // ATen's limit: it stores a set of dims in 64 bits

const TorchDtype* dtype_of_name(std::string_view name) {
  for (const auto& dtype : kTorchDtypes) {
    if (dtype.name == name) return &dtype;
  }
  return nullptr;
}

const TorchDtype* dtype_of_storage(const PickleValue& storage) {
  if (!storage.is(PickleKind::kGlobal) || storage.module() != "torch") return nullptr;
  for (const auto& dtype : kTorchDtypes) {
    if (!dtype.storage.empty() && dtype.storage == storage.name()) return &dtype;
  }
  return nullptr;
}

// Indices of the leading arguments of torch._utils._rebuild_tensor_v2 and _v3. Only _v3 has the
// argument kDtype.
enum RebuildArgument : size_t { kStorage, kOffset, kSize, kStride, kRequiresGrad, kHooks, kDtype };
// Indices of the arguments of torch._tensor._rebuild_from_type_v2, which creates tensors of
// subclasses and tensors with Python attributes.
enum TypedArgument : size_t { kOfFunction, kOfType, kOfArguments };
// Indices of the elements of a storage's persistent id.
enum StorageId : size_t { kTag, kClass, kKey, kLocation, kNumel, kStorageIdSize };

bool rebuilds_dense(const PickleValue& global) {
  if (global.module() != "torch._utils") return false;
  const std::string_view name = global.name();
  return name == "_rebuild_tensor" || name == "_rebuild_tensor_v2" || name == "_rebuild_tensor_v3";
}

}  // namespace

int64_t torch_dtype_size(std::string_view dtype) {
  const TorchDtype* known = dtype_of_name(dtype);
  return known == nullptr ? 0 : known->size;
}

std::string_view torch_storage_class(std::string_view dtype) {
  const TorchDtype* known = dtype_of_name(dtype);
  return known == nullptr ? std::string_view() : known->storage;
}

int64_t storage_element_size(const PickleValue& storage_class) {
  if (storage_class.is_global("torch.storage", "UntypedStorage")) return 1;
  const TorchDtype* dtype = dtype_of_storage(storage_class);
  return dtype == nullptr ? 0 : dtype->size;
}

std::string_view dtype_of_global(const PickleValue& value) {
  if (!value.is(PickleKind::kGlobal) || value.module() != "torch") return {};
  return dtype_of_name(value.name()) == nullptr ? std::string_view() : value.name();
}

std::optional<Shape> shape_of(const PickleValue& value) {
  PickleValue list = value;
  if (value.is_object("torch", "Size")) {
    const auto arguments = value.arguments().items();
    if (arguments.size() != 1) return std::nullopt;
    list = arguments[0];
  }
  if (!list.is(PickleKind::kTuple) && !list.is(PickleKind::kList)) return std::nullopt;
  if (list.items().size() > kMostTorchDims) return std::nullopt;
  Shape shape;
  for (const PickleValue& item : list.items()) {
    const auto size = item.integer();
    if (!size || *size < 0) return std::nullopt;
    shape.push_back(*size);
  }
  return shape;
}

void TorchArchive::fail(const std::string& what) const {
  throw Error(ErrorKind::kFormat, cat(where_, ": ", what),
              "the file may be damaged: fetch it again; or save it again with PyTorch on a "
              "little-endian machine, with tensors of a usual dtype such as bfloat16");
}

TorchArchive TorchArchive::read(std::span<const std::byte> bytes, const std::string& where) {
  if (is_legacy_torch(bytes)) {
    LegacyTorch file = read_legacy_torch(bytes, where);
    TorchArchive archive(std::move(file.object));
    archive.where_ = where;
    for (const auto& [key, data] : file.storages) {
      if (!archive.storages_.emplace(key, data).second)
        archive.fail("two storages have the same key");
    }
    return archive;
  }
  const auto records = read_zip_records(bytes, where);
  std::unordered_map<std::string_view, std::span<const std::byte>> files;
  for (const auto& record : records) {
    // Removes the archive's name, which ends at the first slash: "archive/data.pkl" -> "data.pkl".
    files.emplace(record.name.substr(record.name.find('/') + 1), record.data);
  }
  const auto data = files.find("data.pkl");
  if (data == files.end()) {
    throw Error(
        ErrorKind::kFormat, cat(where, ": not a file of torch.save: the archive has no data.pkl"),
        "a TorchScript file holds code: save the state_dict() of the model with torch.save");
  }
  TorchArchive archive(Pickle::read(data->second, cat(where, ": data.pkl")));
  archive.where_ = where;
  const auto order = files.find("byteorder");
  if (order != files.end()) {
    const std::string_view text(reinterpret_cast<const char*>(order->second.data()),
                                order->second.size());
    if (text != "little") archive.fail(cat("its byte order is \"", text, "\", not \"little\""));
  }
  constexpr std::string_view kStorages = "data/";
  for (const auto& [name, bytes_of] : files) {
    if (starts_with(name, kStorages)) {
      archive.storages_.emplace(name.substr(kStorages.size()), bytes_of);
    }
  }
  return archive;
}

std::optional<TorchTensor> TorchArchive::tensor(const PickleValue& value) const {
  constexpr int kDeepest = 4;  // maximum depth of nested objects: a parameter wraps a tensor
  PickleValue object = value;
  for (int depth = 0; depth < kDeepest; ++depth) {
    if (!object.is(PickleKind::kObject)) return std::nullopt;
    const PickleValue global = object.global();
    const auto parts = object.arguments().items();
    if (object.is_object("torch._tensor", "_rebuild_from_type_v2")) {
      const bool dense = parts.size() > kOfArguments && rebuilds_dense(parts[kOfFunction]);
      if (!dense) return std::nullopt;
      return strided(parts[kOfArguments].items());
    }
    if (rebuilds_dense(global)) return strided(parts);
    if (global.module() != "torch._utils") return std::nullopt;
    const std::string_view name = global.name();
    if (name != "_rebuild_parameter" && name != "_rebuild_parameter_with_state")
      return std::nullopt;
    if (parts.empty()) return std::nullopt;
    object = parts[0];
  }
  return std::nullopt;
}

TorchTensor TorchArchive::strided(std::span<const PickleValue> arguments) const {
  if (arguments.size() <= kStride) fail("a tensor is stored with too few arguments");
  const auto id = arguments[kStorage].persistent_id().items();
  if (id.size() < kStorageIdSize || id[kTag].text() != "storage") fail("a tensor has no storage");
  const bool untyped = id[kClass].is_global("torch.storage", "UntypedStorage");
  const TorchDtype* dtype = untyped && arguments.size() > kDtype
                                ? dtype_of_name(dtype_of_global(arguments[kDtype]))
                                : dtype_of_storage(id[kClass]);
  if (dtype == nullptr) {
    fail(cat("a tensor has an unknown dtype: ", id[kClass].module(), ".", id[kClass].name()));
  }
  const auto key = id[kKey].text();
  const auto storage = key ? storages_.find(*key) : storages_.end();
  if (storage == storages_.end()) fail(cat("there is no storage ", key.value_or("?")));
  const auto elements = static_cast<int64_t>(storage->second.size()) / dtype->size;

  const auto offset = arguments[kOffset].integer();
  const auto shape = shape_of(arguments[kSize]);
  const auto strides = shape_of(arguments[kStride]);
  if (!offset || *offset < 0 || !shape || !strides || shape->size() != strides->size()) {
    fail("a tensor lacks its offset, shape or strides");
  }
  // Number of storage elements from the view's first element to its last, both included.
  int64_t span = 1;
  for (size_t dim = 0; dim < shape->size(); ++dim) {
    if ((*shape)[dim] == 0) {
      span = 0;
      break;
    }
    int64_t reach = 0;
    if (__builtin_mul_overflow((*shape)[dim] - 1, (*strides)[dim], &reach) ||
        __builtin_add_overflow(span, reach, &span)) {
      fail("a tensor has more than 2^63 elements");
    }
  }
  int64_t volume = 1;
  for (const int64_t size : *shape) {
    // A stride of 0 repeats elements, so a tensor may have more elements than its storage.
    if (__builtin_mul_overflow(volume, size, &volume)) fail("a tensor has more than 2^63 elements");
  }
  if (*offset > elements || span > elements - *offset) {
    fail(cat("a tensor of shape ", shape_text(*shape), " and strides ", shape_text(*strides),
             " at offset ", *offset, " does not fit in its storage of ", elements, " elements"));
  }
  return {dtype->name, *shape, *strides,
          storage->second.subspan(static_cast<size_t>(*offset * dtype->size),
                                  static_cast<size_t>(span * dtype->size))};
}

}  // namespace am::formats
