#include "am/stored/torch_pieces.h"

#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/stored/dtensor.h"

namespace am::stored {

namespace {

using formats::PickleValue;

[[noreturn]] void disagree(const std::string& where) {
  throw Error(ErrorKind::kFormat,
              cat(where, ": this part of the tensor does not match the folder's metadata"),
              "the files belong to several checkpoints or were changed; copy the folder again");
}

// Returns the part of `values` that begins at index `first` and has shape `shape`; nullopt if this
// part does not lie inside `values`.
std::optional<formats::TorchTensor> part_of(formats::TorchTensor values, const Shape& first,
                                            const Shape& shape) {
  if (shape.size() != values.shape.size()) return std::nullopt;
  int64_t offset = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const int64_t room = values.shape[dim] - shape[dim];
    if (first[dim] > room) return std::nullopt;
    if (numel(shape) != 0) offset += first[dim] * values.strides[dim];
  }
  const int64_t bytes = offset * formats::torch_dtype_size(values.dtype);
  values.data = numel(shape) == 0 ? std::span<const std::byte>()
                                  : values.data.subspan(static_cast<size_t>(bytes));
  values.shape = shape;
  return values;
}

// Returns whether the tensor has the Python attribute global_shape. The Python package
// torch_checkpointing marks shards with this attribute.
bool says_place(const PickleValue& value) {
  if (!value.is_object("torch._tensor", "_rebuild_from_type_v2")) return false;
  PickleValue state = value.arguments().items().back();
  if (state.is(formats::PickleKind::kTuple) && !state.items().empty()) state = state.items()[0];
  return state.find("global_shape") != nullptr;
}

}  // namespace

TorchPieces read_pieces(const formats::TorchArchive& archive, const PickleValue& value,
                        const std::optional<PartPlace>& place, const std::string& where) {
  if (is_dtensor(value)) {
    DTensorPart part = read_dtensor(archive, value, where);
    const bool agrees =
        !place || (place->shape == part.shape && place->boxes.size() == 1 &&
                   place->boxes.front().box == part.box && place->dtype == part.local.dtype);
    if (!agrees) disagree(where);
    return {{{std::move(part.local), std::move(part.shape), std::move(part.box)}}, part.ranks};
  }
  const formats::TorchTensor values = archive.tensor(value).value();
  if (!place) {
    if (says_place(value)) {
      throw Error(
          ErrorKind::kFormat,
          cat(where,
              ": this is a shard of a tensor, and the file lacks its position in the tensor"),
          "open the folder instead: its metadata has the position of each shard");
    }
    return {{{values, values.shape, mesh::Box::whole(values.shape)}}};
  }
  if (place->dtype != values.dtype) disagree(where);
  TorchPieces found;
  for (const PartPlace::Box& each : place->boxes) {
    const auto part = part_of(values, each.local, each.box.shape);
    if (!part || (place->fills && values.shape != each.box.shape)) disagree(where);
    found.pieces.push_back({*part, place->shape, each.box});
  }
  return found;
}

}  // namespace am::stored
