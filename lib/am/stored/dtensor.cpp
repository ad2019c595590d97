#include "am/stored/dtensor.h"

#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::stored {

namespace {

using formats::PickleKind;
using formats::PickleValue;

// Arguments of torch._tensor._rebuild_from_type_v2, and of torch._utils._rebuild_wrapper_subclass.
enum RebuildArgument : size_t { kFunction, kType, kArguments, kState, kRebuildSize };
constexpr size_t kWrapperShape = 2;
constexpr size_t kMostDims = 64;

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(ErrorKind::kFormat, cat(where, ": a DTensor ", what),
              "torch.distributed.checkpoint.save writes a folder that is read");
}

// Of a tuple, a list, or a lone number; false for anything else, nested tuples are flattened.
bool append_integers(const PickleValue& value, Shape& numbers) {
  if (const auto number = value.integer()) {
    numbers.push_back(*number);
    return numbers.size() <= kMostDims;
  }
  if (!value.is(PickleKind::kTuple) && !value.is(PickleKind::kList)) return false;
  for (const PickleValue& item : value.items()) {
    if (!append_integers(item, numbers)) return false;
  }
  return true;
}

std::optional<Shape> integers_of(const PickleValue* value) {
  Shape numbers;
  if (value == nullptr || !append_integers(*value, numbers)) return std::nullopt;
  return numbers;
}

// torch 2.11 keeps the sizes in the mesh's layout, older versions a tensor of its ranks.
std::optional<Shape> mesh_sizes(const formats::TorchArchive& archive, const PickleValue& mesh) {
  if (const PickleValue* layout = mesh.state().find("_layout")) {
    return integers_of(layout->state().find("shape"));
  }
  for (const char* name : {"mesh", "_mesh"}) {
    const PickleValue* ranks = mesh.state().find(name);
    const auto tensor = ranks == nullptr ? std::nullopt : archive.tensor(*ranks);
    if (tensor) return tensor->shape;
  }
  return std::nullopt;
}

// The cuts that give the part, in their order.
std::vector<mesh::Cut> cuts_of(const PickleValue& placements, const Shape& sizes,
                               const Shape& coordinate, const Shape& shape,
                               const std::string& where) {
  const auto list = placements.items();
  const bool fits = list.size() == sizes.size() && list.size() == coordinate.size();
  if (!fits) fail(where, "has not a placement for each dim of its mesh");
  std::vector<mesh::Cut> plain, strided;
  for (size_t axis = 0; axis < list.size(); ++axis) {
    const std::string_view kind = list[axis].global().name();
    if (kind == "Replicate") continue;
    if (kind != "Shard" && kind != "_StridedShard") {
      fail(where, cat("is placed as ", kind.empty() ? "what is not known" : kind));
    }
    const PickleValue* dim = list[axis].state().find("dim");
    const auto number = dim == nullptr ? std::nullopt : dim->integer();
    const bool cuts = number && *number >= 0 && *number < static_cast<int64_t>(shape.size()) &&
                      sizes[axis] > 0 && coordinate[axis] >= 0 && coordinate[axis] < sizes[axis];
    if (!cuts) fail(where, "is sharded on a dim, or on a rank of its mesh, that it does not have");
    (kind == "Shard" ? plain : strided)
        .push_back({static_cast<int>(*number), sizes[axis], coordinate[axis]});
  }
  plain.insert(plain.end(), strided.rbegin(), strided.rend());
  return plain;
}

}  // namespace

bool is_dtensor(const PickleValue& value) {
  if (!value.is_object("torch._tensor", "_rebuild_from_type_v2")) return false;
  const auto arguments = value.arguments().items();
  return arguments.size() == kRebuildSize && arguments[kType].name() == "DTensor";
}

DTensorPart read_dtensor(const formats::TorchArchive& archive, const PickleValue& value,
                         const std::string& where) {
  const auto arguments = value.arguments().items();
  // Of slots and attributes together a pair, else the attributes alone.
  PickleValue state = arguments[kState];
  if (state.is(PickleKind::kTuple) && state.items().size() == 2) state = state.items()[1];
  const PickleValue* local = state.find("_local_tensor");
  const PickleValue* spec = state.find("_spec");
  const auto wrapper = arguments[kArguments].items();
  if (local == nullptr || spec == nullptr || wrapper.size() <= kWrapperShape) {
    fail(where, "of another version of PyTorch, without a local tensor or a spec");
  }
  const auto tensor = archive.tensor(*local);
  const auto shape = integers_of(&wrapper[kWrapperShape]);
  const PickleValue* mesh = spec->state().find("mesh");
  const PickleValue* placements = spec->state().find("placements");
  if (!tensor || !shape || mesh == nullptr || placements == nullptr) {
    fail(where, "without values, shape, mesh or placements");
  }
  const auto sizes = mesh_sizes(archive, *mesh);
  const auto coordinate = integers_of(mesh->state().find("_coordinate_on_dim"));
  if (!sizes || !coordinate) fail(where, "whose mesh does not say which of its ranks it is");
  for (const int64_t size : *shape) {
    if (size < 0) fail(where, "of a negative size");
  }
  mesh::Box box = mesh::cut_box(*shape, cuts_of(*placements, *sizes, *coordinate, *shape, where));
  if (tensor->shape != box.shape) {
    fail(where, cat("whose part is ", shape_text(tensor->shape), ", and ", shape_text(box.shape),
                    " by its mesh and placements"));
  }
  return {*tensor, *shape, std::move(box)};
}

}  // namespace am::stored
