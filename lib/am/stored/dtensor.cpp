#include "am/stored/dtensor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/stored/dtensor_spec.h"

namespace am::stored {

namespace {

using formats::PickleKind;
using formats::PickleValue;

// Indices of the arguments of torch._tensor._rebuild_from_type_v2. The argument kArguments is
// itself the list of arguments of torch._utils._rebuild_wrapper_subclass; kWrapperShape is an index
// in that list.
enum RebuildArgument : size_t { kFunction, kType, kArguments, kState, kRebuildSize };
constexpr size_t kWrapperShape = 2;
constexpr size_t kMostDims = 64;
constexpr int kDeepest = 4;  // maximum number of nested tuples, lists and torch.Sizes

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(ErrorKind::kFormat, cat(where, ": a DTensor ", what),
              "save it with torch.distributed.checkpoint.save, whose folders automesh reads");
}

bool append_integers(const PickleValue& value, int depth, Shape& numbers) {
  if (const auto number = value.integer()) {
    numbers.push_back(*number);
    return numbers.size() <= kMostDims;
  }
  const bool size = value.is_object("torch", "Size");
  if (!size && !value.is(PickleKind::kTuple) && !value.is(PickleKind::kList)) return false;
  const auto items = size ? value.arguments().items() : value.items();
  if (items.size() > kMostDims || depth == kDeepest) return false;
  return std::all_of(items.begin(), items.end(), [&](const PickleValue& item) {
    return append_integers(item, depth + 1, numbers);
  });
}

// Returns the sizes of a mesh's dims from the shape in its pickled _MeshLayout. A nested tuple
// stands for dims that were flattened into one, whose size is the product of the tuple's numbers.
std::optional<Shape> layout_sizes(const PickleValue* shape) {
  if (shape == nullptr || !shape->is(PickleKind::kTuple)) return integers_of(shape);
  Shape sizes;
  for (const PickleValue& item : shape->items()) {
    const auto factors = integers_of(&item);
    int64_t size = 1;
    if (!factors) return std::nullopt;
    for (const int64_t factor : *factors) {
      if (__builtin_mul_overflow(size, factor, &size)) return std::nullopt;
    }
    sizes.push_back(size);
    if (sizes.size() > kMostDims) return std::nullopt;
  }
  return sizes;
}

// Returns the sizes of a mesh's dims. torch 2.11 pickles a mesh with a `_layout`. Older versions
// pickle a tensor of ranks with the mesh's shape.
std::optional<Shape> mesh_sizes(const formats::TorchArchive& archive, const PickleValue& mesh) {
  if (const PickleValue* layout = mesh.state().find("_layout")) {
    return layout_sizes(layout->state().find("shape"));
  }
  for (const char* name : {"mesh", "_mesh"}) {
    const PickleValue* ranks = mesh.state().find(name);
    const auto tensor = ranks == nullptr ? std::nullopt : archive.tensor(*ranks);
    if (tensor) return tensor->shape;
  }
  return std::nullopt;
}

std::vector<AxisPlacement> placements_of(const PickleValue& placements, const std::string& where) {
  std::vector<AxisPlacement> axes;
  for (const PickleValue& each : placements.items()) {
    const std::string_view kind = each.global().name();
    if (kind == "Replicate") {
      axes.push_back({});
      continue;
    }
    if (kind != "Shard" && kind != "_StridedShard") {
      fail(where, cat("has the placement ", kind.empty() ? "(unknown)" : kind));
    }
    const auto number = [&](const char* name) {
      const PickleValue* value = each.state().find(name);
      const auto read = value == nullptr ? std::nullopt : value->integer();
      if (!read) fail(where, cat("has the placement ", kind, " without ", name));
      return *read;
    };
    axes.push_back({true, number("dim"), kind == "Shard" ? 1 : number("split_factor")});
  }
  return axes;
}

// Returns the mesh dims in the order in which they shard the tensor. Empty if the pickled spec has
// no shard_order.
std::vector<size_t> shard_order(const PickleValue& spec, const std::string& where) {
  std::vector<size_t> order;
  const PickleValue* entries = spec.find("shard_order");
  if (entries == nullptr) return order;
  for (const PickleValue& entry : entries->items()) {
    const auto arguments = entry.arguments().items();
    const auto axes = arguments.size() == 2 ? integers_of(&arguments[1]) : std::nullopt;
    if (!axes) fail(where, "has a shard_order that cannot be read");
    for (const int64_t axis : *axes) order.push_back(static_cast<size_t>(axis));
  }
  return order;
}

}  // namespace

bool is_dtensor(const PickleValue& value) {
  if (!value.is_object("torch._tensor", "_rebuild_from_type_v2")) return false;
  const auto arguments = value.arguments().items();
  return arguments.size() == kRebuildSize && arguments[kType].name() == "DTensor";
}

std::optional<Shape> integers_of(const PickleValue* value) {
  Shape numbers;
  if (value == nullptr || !append_integers(*value, 0, numbers)) return std::nullopt;
  return numbers;
}

DTensorPart read_dtensor(const formats::TorchArchive& archive, const PickleValue& value,
                         const std::string& where) {
  const auto arguments = value.arguments().items();
  // The pickled state of an object with __slots__ is a pair; its second element is the dict of the
  // slots' values. The state of other objects is the dict of attributes.
  PickleValue state = arguments[kState];
  if (state.is(PickleKind::kTuple) && state.items().size() == 2) state = state.items()[1];
  const PickleValue* local = state.find("_local_tensor");
  const PickleValue* spec = state.find("_spec");
  const auto wrapper = arguments[kArguments].items();
  if (local == nullptr || spec == nullptr || wrapper.size() <= kWrapperShape) {
    fail(where, "has no local tensor or no spec: another version of PyTorch wrote it");
  }
  const auto tensor = archive.tensor(*local);
  const auto shape = integers_of(&wrapper[kWrapperShape]);
  const PickleValue* mesh = spec->state().find("mesh");
  const PickleValue* placements = spec->state().find("placements");
  if (!tensor || !shape || mesh == nullptr || placements == nullptr) {
    fail(where, "lacks its values, shape, mesh or placements");
  }
  const auto sizes = mesh_sizes(archive, *mesh);
  const auto coordinate = integers_of(mesh->state().find("_coordinate_on_dim"));
  if (!sizes || !coordinate) fail(where, "has a mesh without this rank's coordinate");
  DTensorSpec lies{*shape, *sizes, placements_of(*placements, where), {}};
  const bool strided =
      std::any_of(lies.axes.begin(), lies.axes.end(),
                  [](const AxisPlacement& axis) { return axis.split_factor != 1; });
  if (!strided) lies.order = shard_order(spec->state(), where);
  if (const auto problem = put_in_order(lies)) fail(where, *problem);
  if (!is_on_mesh(lies, *coordinate)) fail(where, "has a coordinate that is outside its mesh");
  mesh::Box box = part_at(lies, *coordinate);
  if (tensor->shape != box.shape) {
    fail(where, cat("has a part of the shape ", shape_text(tensor->shape),
                    ", but its mesh and placements give ", shape_text(box.shape)));
  }
  int64_t ranks = ranks_of(lies);
  if (const PickleValue* root = mesh->state().find("_root_mesh")) {
    const auto all = mesh_sizes(archive, *root);
    DTensorSpec whole{{}, all.value_or(Shape()), {}, {}};
    whole.axes.resize(whole.sizes.size());
    if (!put_in_order(whole)) ranks = std::max(ranks, ranks_of(whole));
  }
  return {*tensor, *shape, std::move(box), ranks};
}

}  // namespace am::stored
