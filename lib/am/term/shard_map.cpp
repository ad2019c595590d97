#include "am/term/shard_map.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "am/base/error.h"
#include "am/base/ranks.h"
#include "am/base/text.h"
#include "am/term/mesh_view.h"
#include "am/term/table.h"

namespace am::term {
namespace {

using Range = std::pair<int64_t, int64_t>;  // offset and size in one dim

struct Part {
  std::vector<Range> ranges;  // one range for each dim
  std::vector<int64_t> ranks;

  bool empty() const {
    return std::any_of(ranges.begin(), ranges.end(), [](const Range& r) { return r.second == 0; });
  }
};

std::string range_text(const Range& range) {
  const auto [offset, size] = range;
  return size == 1 ? std::to_string(offset) : cat(offset, "-", offset + size - 1);
}

// Returns the distinct shards, ordered by offset, each with the ranks that hold it. Ranks whose
// shard is empty are added to `holds_nothing`.
std::vector<Part> distinct_parts(std::span<const RankBox> shards, size_t dims,
                                 std::vector<int64_t>& holds_nothing) {
  std::map<std::vector<Range>, std::vector<int64_t>> by_ranges;
  for (const RankBox& shard : shards) {
    AM_ASSERT(shard.offset.size() == dims && shard.shape.size() == dims,
              "a shard has other dims than its parameter");
    Part part;
    for (size_t dim = 0; dim < dims; ++dim) {
      part.ranges.emplace_back(shard.offset[dim], shard.shape[dim]);
    }
    if (part.empty()) {
      holds_nothing.push_back(shard.rank);
    } else {
      by_ranges[part.ranges].push_back(shard.rank);
    }
  }
  std::vector<Part> parts;
  for (auto& [ranges, ranks] : by_ranges) parts.push_back({ranges, std::move(ranks)});
  return parts;
}

// Returns the dims along which a parameter of shape `global` is sharded: the dims in which at least
// one shard does not cover the whole range.
std::vector<size_t> cut_dims(const std::vector<Part>& parts, std::span<const int64_t> global) {
  std::vector<size_t> cut;
  for (size_t dim = 0; dim < global.size(); ++dim) {
    const bool whole = std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
      return part.ranges[dim] == Range{0, global[dim]};
    });
    if (!whole) cut.push_back(dim);
  }
  return cut;
}

std::string dim_name(size_t dim, size_t dims) {
  if (dim == 0) return dims == 1 ? "elements" : "rows";
  if (dim == 1 && dims == 2) return "columns";
  return cat("dim ", dim, ":");
}

// Draws a matrix that is sharded in both dims as a grid of shards. Returns an empty string if the
// shards do not form a grid, or if the grid has more than 8 columns.
std::string matrix_box(const std::vector<Part>& parts, const Style& style) {
  std::set<Range> rows, columns;
  for (const Part& part : parts) {
    rows.insert(part.ranges[0]);
    columns.insert(part.ranges[1]);
  }
  constexpr size_t kMostColumns = 8;
  if (parts.size() != rows.size() * columns.size() || columns.size() > kMostColumns) return {};
  GridBox box;
  for (const Range& column : columns) box.columns.push_back(cat("columns ", range_text(column)));
  for (const Range& row : rows) {
    box.rows.push_back(cat("rows ", range_text(row)));
    std::vector<std::string>& cells = box.cells.emplace_back();
    for (const Range& column : columns) {
      const auto at = std::find_if(parts.begin(), parts.end(), [&](const Part& part) {
        return part.ranges[0] == row && part.ranges[1] == column;
      });
      if (at == parts.end()) return {};
      cells.push_back(cat("rank ", rank_list(at->ranks)));
    }
  }
  const GridStack stack{"", {std::move(box)}};
  return draw_grid(std::span(&stack, 1), style);
}

}  // namespace

std::string shard_map(std::span<const int64_t> global, std::span<const RankBox> shards,
                      const Style& style) {
  std::vector<int64_t> holds_nothing;
  const std::vector<Part> parts = distinct_parts(shards, global.size(), holds_nothing);
  const std::vector<size_t> cut = cut_dims(parts, global);
  std::string out;
  if (global.size() == 2 && cut.size() == 2) out = matrix_box(parts, style);
  Table table({{}, {}});
  if (out.empty()) {
    for (const Part& part : parts) {
      std::vector<std::string> ranges;
      for (const size_t dim : cut) {
        ranges.push_back(cat(dim_name(dim, global.size()), " ", range_text(part.ranges[dim])));
      }
      table.add({ranges.empty() ? "whole" : join(ranges, ", "),
                 Cell(cat("rank ", rank_list(part.ranks)), Role::kAccent)});
    }
  }
  if (!holds_nothing.empty()) {
    table.add(
        {Cell("nothing", Role::kDim), Cell(cat("rank ", rank_list(holds_nothing)), Role::kDim)});
  }
  return out + table.text(style);
}

}  // namespace am::term
