#include "am/inspect/render.h"

#include <algorithm>
#include <array>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/term/mesh_view.h"
#include "am/term/printable.h"
#include "am/term/shard_map.h"
#include "am/term/table.h"

namespace am::inspect {
namespace {

using term::Align;
using term::Cell;
using term::Role;
using term::Style;

// Returns the title of a row of ranks: their indices along dp_replicate, dp_shard and cp, for
// example "dp_replicate 0, dp_shard 1". Axes of one rank are omitted.
std::string row_title(const mesh::MeshLayout& mesh, const std::array<int64_t, 5>& coordinate) {
  std::vector<std::string> parts;
  for (const mesh::Axis axis : {mesh::Axis::kDpReplicate, mesh::Axis::kDpShard, mesh::Axis::kCp}) {
    if (mesh.sizes().size(axis) > 1) {
      parts.push_back(cat(mesh::to_string(axis), " ", coordinate.at(static_cast<size_t>(axis))));
    }
  }
  return join(parts, ", ");
}

}  // namespace

std::string draw_facts(const std::vector<std::pair<std::string, std::string>>& facts,
                       const Style& style) {
  term::Table table({{""}, {"", style.window ? term::Align::kWrap : term::Align::kLeft}});
  for (const auto& [name, value] : facts) table.add({Cell(name, Role::kDim), value});
  return table.text(style);
}

std::string draw_shards(const HeldParameter& parameter, std::span<const HeldShard> shards,
                        const Style& style) {
  std::vector<term::RankBox> boxes;
  for (const HeldShard& shard : shards) {
    boxes.push_back({shard.rank, shard.box.offset, shard.box.shape});
  }
  return term::shard_map(parameter.shape, boxes, style);
}

std::string draw_mesh(const mesh::MeshLayout& mesh, const Style& style) {
  const mesh::MeshSizes& sizes = mesh.sizes();
  const int64_t rows = sizes.dp() * sizes.cp;
  std::vector<term::GridStack> stacks;
  for (int64_t stage = 0; stage < sizes.pp; ++stage) {
    term::GridBox box;
    for (int64_t tp = 0; tp < sizes.tp && sizes.tp > 1; ++tp) box.columns.push_back(cat("tp ", tp));
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t first = (stage * rows + row) * sizes.tp;
      box.rows.push_back(row_title(mesh, mesh.coordinate(first)));
      std::vector<std::string> cells;
      for (int64_t tp = 0; tp < sizes.tp; ++tp) cells.push_back(std::to_string(first + tp));
      box.cells.push_back(std::move(cells));
    }
    stacks.push_back({sizes.pp > 1 ? cat("pp ", stage) : std::string(), {std::move(box)}});
  }
  const int64_t world = mesh.world_size();
  return term::draw_grid(stacks, style) + cat(world, world == 1 ? " rank\n" : " ranks\n");
}

std::string draw_held_bytes(const std::vector<HeldBytes>& before,
                            const std::vector<HeldBytes>& after, const Style& style) {
  struct Kind {
    const char* title;
    int64_t HeldBytes::*bytes;
  };
  static constexpr Kind kOthers[] = {{"gradients", &HeldBytes::gradients},
                                     {"optimizer", &HeldBytes::optimizer},
                                     {"model", &HeldBytes::model}};
  const bool compares = !before.empty();
  std::vector<term::Column> columns = {{"rank", Align::kRight}, {"shards", Align::kRight}};
  if (compares) columns.push_back({"full before", Align::kRight});
  columns.push_back({compares ? "full after" : "full", Align::kRight});
  // Kinds of memory that get a column, because at least one rank has bytes of the kind.
  std::vector<int64_t HeldBytes::*> others;
  for (const Kind& kind : kOthers) {
    const bool any = std::any_of(after.begin(), after.end(),
                                 [&](const HeldBytes& rank) { return rank.*kind.bytes > 0; });
    if (!any) continue;
    columns.push_back({kind.title, Align::kRight});
    others.push_back(kind.bytes);
  }
  term::Table table(columns);
  for (size_t i = 0; i < after.size(); ++i) {
    std::vector<Cell> cells = {std::to_string(after[i].rank), format_bytes(after[i].sharded)};
    if (compares) cells.emplace_back(format_bytes(before[i].unsharded));
    const bool changed = compares && before[i].unsharded != after[i].unsharded;
    cells.emplace_back(format_bytes(after[i].unsharded), changed ? Role::kAccent : Role::kPlain);
    for (const auto bytes : others) cells.emplace_back(format_bytes(after[i].*bytes));
    table.add(std::move(cells));
  }
  return table.text(style);
}

std::string box_text(const mesh::Box& box) {
  if (box.numel() == 0) return "nothing";
  std::vector<std::string> ranges;
  for (size_t dim = 0; dim < box.shape.size(); ++dim) {
    ranges.push_back(cat(box.offset[dim], ":", box.offset[dim] + box.shape[dim]));
  }
  return cat("[", join(ranges, ", "), "]");
}

std::string printable_text(std::string_view text, const Style& style) {
  const char* replacement = style.unicode ? "\uFFFD" : "?";
  std::string out;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const std::string_view sequence = text.substr(0, std::max<size_t>(1, length));
    const bool keep = length > 0 &&
                      (sequence == "\n" || sequence == "\t" || !term::is_control(sequence)) &&
                      (style.unicode || length == 1);
    if (keep) {
      out += sequence;
    } else {
      out += replacement;
    }
    text.remove_prefix(sequence.size());
  }
  return out;
}

std::string quoted_text(std::string_view text, const Style& style) {
  std::string out = "\"";
  for (const char c : printable_text(text, style)) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '"' || c == '\\') {
      out += cat('\\', c);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace am::inspect
