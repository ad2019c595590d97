#include "am/inspect/slice.h"

#include <algorithm>

#include "am/base/error.h"
#include "am/base/number.h"
#include "am/base/text.h"

namespace am::inspect {
namespace {

constexpr const char* kHint = "write NAME[3], NAME[0:4, :8] or NAME[-2:]";

std::optional<int64_t> parse_bound(std::string_view text) {
  text = trim(text);
  if (text.empty()) return std::nullopt;
  const auto value = parse_integer(text);
  if (!value) throw Error(ErrorKind::kUsage, cat("`", text, "` is not an index"), kHint);
  return value;
}

SliceItem parse_item(std::string_view text) {
  const std::vector<std::string> bounds = split(text, ':');
  if (bounds.size() > 2) {
    throw Error(ErrorKind::kUsage, cat("`", trim(text), "`: a slice with a step is not supported"),
                kHint);
  }
  SliceItem item;
  item.begin = parse_bound(bounds.front());
  item.is_index = bounds.size() == 1;
  if (!item.is_index) item.end = parse_bound(bounds.back());
  if (item.is_index && !item.begin) {
    throw Error(ErrorKind::kUsage, "an index is missing between the brackets", kHint);
  }
  return item;
}

mesh::Extent select_dim(const SliceItem& item, int64_t size, size_t dim) {
  const auto from_end = [size](int64_t index) { return index < 0 ? index + size : index; };
  if (item.is_index) {
    const int64_t index = from_end(*item.begin);
    if (index < 0 || index >= size) {
      throw Error(ErrorKind::kUsage, cat("index ", *item.begin, " is outside of dim ", dim,
                                         ", which has size ", size));
    }
    return {index, 1};
  }
  const int64_t begin = std::clamp<int64_t>(from_end(item.begin.value_or(0)), 0, size);
  const int64_t end = std::clamp<int64_t>(from_end(item.end.value_or(size)), 0, size);
  return {begin, std::max<int64_t>(0, end - begin)};
}

}  // namespace

Subscript parse_subscript(std::string_view text) {
  text = trim(text);
  Subscript result;
  const size_t open = text.find('[');
  result.name = std::string(trim(text.substr(0, open)));
  if (open == std::string_view::npos) return result;
  if (text.back() != ']') {
    throw Error(ErrorKind::kUsage, cat("`", text, "`: the bracket is not closed"), kHint);
  }
  const std::string_view inside = text.substr(open + 1, text.size() - open - 2);
  for (const std::string& item : split(inside, ',')) result.items.push_back(parse_item(item));
  return result;
}

Selection select(const std::vector<SliceItem>& items, const Shape& shape) {
  if (items.size() > shape.size()) {
    throw Error(ErrorKind::kUsage,
                cat("the tensor has the shape ", shape_text(shape), ", but the slice has ",
                    items.size(), items.size() == 1 ? " index" : " indices"));
  }
  Selection result;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    mesh::Extent extent{0, shape[dim]};
    if (dim < items.size()) extent = select_dim(items[dim], shape[dim], dim);
    result.box.offset.push_back(extent.offset);
    result.box.shape.push_back(extent.size);
    if (dim >= items.size() || !items[dim].is_index) result.shape.push_back(extent.size);
  }
  return result;
}

}  // namespace am::inspect
