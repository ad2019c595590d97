#include "am/frameworks/row_map.h"

#include <algorithm>

namespace am::frameworks {

namespace {

// Maximum number of rows of a RowPiece that contains several heads and whose rows must be
// rearranged. A RowPiece of a single head may have more rows.
constexpr int64_t kMostRows = 1024;

void append(std::vector<mesh::Extent>& extents, const mesh::Extent& next) {
  if (next.size == 0) return;
  if (!extents.empty() && extents.back().offset + extents.back().size == next.offset) {
    extents.back().size += next.size;
  } else {
    extents.push_back(next);
  }
}

}  // namespace

int64_t RowMap::rows() const {
  int64_t rows = 1;
  for (const Digit& digit : digits) rows *= digit.count;
  return rows;
}

int64_t RowMap::stored(int64_t row) const {
  int64_t stored = first;
  for (size_t i = digits.size(); i-- > 0;) {
    stored += row % digits[i].count * digits[i].stride;
    row /= digits[i].count;
  }
  return stored;
}

std::vector<RowPiece> RowMap::pieces(const mesh::Extent& rows) const {
  std::vector<RowPiece> pieces;
  const bool runs = digits.back().stride == 1;
  // Number of rows per piece before adjacent pieces are joined. If the last digit, which changes
  // fastest, has stride 1, a piece is a contiguous run. Otherwise, a piece has all rows with one
  // value of the first digit, that is, the rows of one head.
  const int64_t block = runs ? digits.back().count : this->rows() / digits.front().count;
  const int64_t end = rows.offset + rows.size;
  for (int64_t row = rows.offset; row < end;) {
    const int64_t next = std::min(end, (row / block + 1) * block);
    RowPiece piece{{row, next - row}, {stored(row), 1}, runs};
    if (runs) {
      piece.span.size = piece.rows.size;
    } else if (piece.rows.size == block) {
      for (size_t i = 1; i < digits.size(); ++i) {
        piece.span.size += (digits[i].count - 1) * digits[i].stride;
      }
    } else {
      int64_t low = piece.span.offset, high = low;
      for (int64_t i = row; i < next; ++i) {
        low = std::min(low, stored(i));
        high = std::max(high, stored(i));
      }
      piece.span = {low, high - low + 1};
    }
    row = next;
    if (!pieces.empty()) {
      RowPiece& last = pieces.back();
      const bool follows = last.span.offset + last.span.size == piece.span.offset;
      const bool dense = last.span.size == last.rows.size && piece.span.size == piece.rows.size;
      const bool small = runs || last.rows.size + piece.rows.size <= kMostRows;
      if (follows && dense && small) {
        last.rows.size += piece.rows.size;
        last.span.size += piece.span.size;
        continue;
      }
    }
    pieces.push_back(piece);
  }
  return pieces;
}

std::vector<mesh::Extent> RowMap::held_in(const mesh::Extent& stored_rows) const {
  std::vector<mesh::Extent> held;
  const int64_t begin = stored_rows.offset, end = begin + stored_rows.size;
  for (const RowPiece& piece : pieces({0, rows()})) {
    const int64_t low = std::max(begin, piece.span.offset);
    const int64_t high = std::min(end, piece.span.offset + piece.span.size);
    if (low >= high) continue;
    if (high - low == piece.span.size) {
      append(held, piece.rows);
    } else if (piece.in_order) {
      append(held, {piece.rows.offset + low - piece.span.offset, high - low});
    } else {
      for (int64_t row = piece.rows.offset; row < piece.rows.offset + piece.rows.size; ++row) {
        const int64_t at = stored(row);
        if (at >= begin && at < end) append(held, {row, 1});
      }
    }
  }
  return held;
}

RowMap row_range(int64_t first, int64_t count) { return {first, {{count, 1}}}; }

RowMap rows_of_pairs(int64_t heads, int64_t head_dim) {
  return {0, {{heads, head_dim}, {2, 1}, {head_dim / 2, 2}}};
}

RowMap rows_of_groups(const RowGroups& groups) {
  return {groups.first, {{groups.groups, groups.stride}, {groups.count, 1}}};
}

}  // namespace am::frameworks
