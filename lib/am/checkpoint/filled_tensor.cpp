#include "am/checkpoint/filled_tensor.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"

namespace am::checkpoint {

namespace {

constexpr size_t kNamesInError = 8;

std::string listed(std::vector<std::string> names) {
  const size_t more = names.size() > kNamesInError ? names.size() - kNamesInError : 0;
  names.resize(names.size() - more);
  return cat(join(names, ", "), more > 0 ? cat(" and ", more, " more") : "");
}

// A Hugging Face tensor, and the location in the framework's tensor to which it is written.
struct Filling {
  const stored::StoredTensor* hub;
  frameworks::StoredPart place;
};

// Returns the shape of the framework's tensor that these parts form. Assumes that no part is
// missing.
Shape shape_of_all(const std::vector<Filling>& fillings) {
  const Filling& first = fillings.front();
  Shape shape(first.place.index.size(), 0);
  int64_t rows = 0;
  for (const Filling& each : fillings) {
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      shape[dim] = std::max(shape[dim], each.place.index.at(dim) + 1);
    }
    if (each.place.index == first.place.index) rows += each.hub->shape.front();
  }
  shape.push_back(rows);
  shape.insert(shape.end(), first.hub->shape.begin() + 1, first.hub->shape.end());
  return shape;
}

// Throws Error(kFormat) if a part of the framework's tensor is missing or has a wrong shape, dtype
// or location.
void require_all_parts(const frameworks::NameMap& names, const FilledTensor& tensor,
                       const std::vector<Filling>& fillings, const std::string& path) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kFormat, cat(path, ": ", names.table().framework, "'s ", what));
  };
  const frameworks::HubParts wanted = names.to_hub(tensor.name, tensor.shape);
  if (!wanted.problem.empty()) fail(wanted.problem);
  std::vector<std::string> missing;
  size_t found = 0;
  for (const frameworks::HubPart& part : wanted.parts) {
    const auto given = std::find_if(fillings.begin(), fillings.end(), [&](const Filling& each) {
      return each.hub->name == part.name;
    });
    if (given == fillings.end()) {
      missing.push_back(part.name);
    } else if (given->place.index == part.stored.index && given->place.rows == part.stored.rows) {
      ++found;
    }
  }
  if (!missing.empty()) fail(cat(tensor.name, " lacks ", listed(std::move(missing))));
  if (found != fillings.size()) fail(cat(tensor.name, " is not completely covered by its parts"));
  for (const Filling& each : fillings) {
    const bool same_rest =
        std::equal(each.hub->shape.begin() + 1, each.hub->shape.end(),
                   fillings.front().hub->shape.begin() + 1, fillings.front().hub->shape.end());
    const frameworks::RowMap& rows = each.place.rows;
    const int64_t wanted_rows = rows.is_whole() ? tensor.shape[tensor.in_front] : rows.rows();
    if (!same_rest || each.hub->shape.front() != wanted_rows || each.hub->dtype != tensor.dtype) {
      fail(cat(tensor.name, " of shape ", shape_text(tensor.shape), " and dtype ",
               formats::torch_name(tensor.dtype), " cannot be assembled: its part ", each.hub->name,
               " has the shape ", shape_text(each.hub->shape), " and dtype ",
               formats::torch_name(each.hub->dtype)));
    }
  }
}

// Returns a view of `rows` as bytes, for index_copy_, which does not support every dtype.
at::Tensor as_row_bytes(const at::Tensor& rows) { return rows.view(at::kByte); }

// Reads rows of a stacked matrix into `out`, whose first row is row `rows.offset` of the matrix.
// Writes only the rows in the range `rows` that `part` provides; leaves the others unchanged.
void read_copy(const stored::TensorSource& source, const FilledPart& part, const mesh::Extent& rows,
               const at::Tensor& out) {
  const stored::StoredTensor& hub = *source.find(part.hub);
  mesh::Box box = mesh::Box::whole(hub.shape);
  const auto read = [&](const mesh::Extent& taken, const at::Tensor& to) {
    box.offset.front() = taken.offset;
    box.shape.front() = taken.size;
    checkpoint::read(source, part.hub, box, to.view(box.shape));
  };
  if (part.rows.is_whole()) return read(rows, out);
  for (const mesh::Extent& held : part.rows.held_in(rows)) {
    for (const frameworks::RowPiece& piece : part.rows.pieces(held)) {
      const at::Tensor to = out.narrow(0, piece.span.offset - rows.offset, piece.span.size);
      if (piece.in_order) {
        read(piece.rows, to);
        continue;
      }
      const at::Tensor taken = at::empty({piece.rows.size, out.size(1)}, out.options());
      read(piece.rows, taken);
      const at::Tensor order = at::empty({piece.rows.size}, at::kLong);
      auto* place = order.data_ptr<int64_t>();
      for (int64_t i = 0; i < piece.rows.size; ++i) {
        place[i] = part.rows.stored(piece.rows.offset + i) - piece.span.offset;
      }
      as_row_bytes(to).index_copy_(0, order, as_row_bytes(taken));
    }
  }
}

// Calls visit(part, before, range) for each part whose stacked matrix contains some of `rows`, a
// range of rows of the tensor. `range`: these rows, counted within the matrix. `before`: the number
// of rows in `rows` that precede them.
template <typename Visit>
void for_parts(const FilledTensor& tensor, const mesh::Extent& rows, const Visit& visit) {
  const int64_t of_copy = tensor.shape[tensor.in_front];
  for (const FilledPart& part : tensor.parts) {
    const int64_t begin = std::max(rows.offset, part.copy * of_copy);
    const int64_t end = std::min(rows.offset + rows.size, (part.copy + 1) * of_copy);
    if (begin >= end) continue;
    visit(part, begin - rows.offset, mesh::Extent{begin - part.copy * of_copy, end - begin});
  }
}

}  // namespace

int64_t FilledTensor::rows() const {
  int64_t rows = 1;
  for (size_t dim = 0; dim < std::min(in_front + 1, shape.size()); ++dim) rows *= shape[dim];
  return rows;
}

int64_t FilledTensor::row_numel() const {
  int64_t numel = 1;
  for (size_t dim = in_front + 1; dim < shape.size(); ++dim) numel *= shape[dim];
  return numel;
}

FilledTensor filled_by(const stored::StoredTensor& tensor) {
  return {tensor.name, tensor.shape, tensor.dtype, 0, {{tensor.name, 0, {}}}};
}

std::vector<FilledTensor> fill_all(const frameworks::NameMap& names,
                                   const stored::TensorSource& source) {
  std::vector<std::string> unknown;
  std::vector<std::string> order;  // names of the framework's tensors, in the source's order
  std::map<std::string, std::vector<Filling>> by_name;
  for (const stored::StoredTensor& tensor : source.tensors()) {
    auto place =
        tensor.shape.empty() ? std::nullopt : names.from_hub(tensor.name, tensor.shape.front());
    if (!place) {
      unknown.push_back(tensor.name);
      continue;
    }
    auto& fillings = by_name[place->name];
    if (fillings.empty()) order.push_back(place->name);
    fillings.push_back({&tensor, *std::move(place)});
  }
  const std::string path = source.path().string();
  if (!unknown.empty()) {
    throw Error(ErrorKind::kFormat, cat(path, ": ", names.table().framework, " has no name for ",
                                        listed(std::move(unknown))));
  }
  std::vector<FilledTensor> all;
  for (const std::string& name : order) {
    const std::vector<Filling>& fillings = by_name[name];
    FilledTensor tensor{name,
                        shape_of_all(fillings),
                        fillings.front().hub->dtype,
                        fillings.front().place.index.size(),
                        {}};
    require_all_parts(names, tensor, fillings, path);
    for (const Filling& each : fillings) {
      int64_t copy = 0;
      for (size_t dim = 0; dim < tensor.in_front; ++dim) {
        copy = copy * tensor.shape[dim] + each.place.index[dim];
      }
      tensor.parts.push_back({each.hub->name, copy, each.place.rows});
    }
    all.push_back(std::move(tensor));
  }
  return all;
}

void read_filled_rows(const stored::TensorSource& source, const FilledTensor& tensor,
                      const mesh::Extent& rows, const at::Tensor& out) {
  if (tensor.shape.empty()) {
    return read(source, tensor.parts.front().hub, mesh::Box::whole({}), out.view(Shape{}));
  }
  for_parts(tensor, rows, [&](const FilledPart& part, int64_t before, const mesh::Extent& taken) {
    read_copy(source, part, taken, out.narrow(0, before, taken.size));
  });
}

void will_read_filled_rows(const stored::TensorSource& source, const FilledTensor& tensor,
                           const mesh::Extent& rows) {
  if (tensor.shape.empty()) return;
  for_parts(tensor, rows, [&](const FilledPart& part, int64_t, const mesh::Extent& taken) {
    mesh::Box box = mesh::Box::whole(source.find(part.hub)->shape);
    const auto hint = [&](const mesh::Extent& own) {
      box.offset.front() = own.offset;
      box.shape.front() = own.size;
      source.prefetch(part.hub, box);
    };
    if (part.rows.is_whole()) return hint(taken);
    for (const mesh::Extent& held : part.rows.held_in(taken)) hint(held);
  });
}

}  // namespace am::checkpoint
