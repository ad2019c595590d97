// Which rows of a stored matrix are the rows of another one, in its order: a number in mixed radix,
// each of whose digits weighs so many stored rows.
//
//   // The queries of a fused projection: of each of 2 groups (48 rows) the first 32.
//   const RowMap queries = rows_of_groups({.groups = 2, .stride = 48, .first = 0, .count = 32});
//   queries.rows();        // 64
//   queries.stored(33);    // 49
//
// The same value serves both ways: a reader takes row stored(i) for row i, a writer puts row i
// there. Moments of an optimizer lie as their parameter does.
#pragma once

#include <cstdint>
#include <vector>

#include "am/mesh/shard.h"

namespace am::stored {

// Rows that are read at once. Their stored rows are `span`; where those are as many and in order,
// they need no rearranging.
struct RowPiece {
  mesh::Extent rows;
  mesh::Extent span;
  bool in_order = true;
};

struct RowMap {
  struct Digit {
    int64_t count = 0;
    int64_t stride = 0;
    bool operator==(const Digit&) const = default;
  };
  int64_t first = 0;
  std::vector<Digit>
      digits;  // the slowest first; none: all rows as they are, whatever their number

  bool is_whole() const { return digits.empty(); }
  int64_t rows() const;
  int64_t stored(int64_t row) const;
  // Rows [rows.offset, + size), cut where stored rows stop to follow each other; no piece of
  // rearranged rows is longer than a thousand or so, or than a head.
  std::vector<RowPiece> pieces(const mesh::Extent& rows) const;
  // The rows that come from these stored ones, ascending.
  std::vector<mesh::Extent> held_in(const mesh::Extent& stored_rows) const;
  bool operator==(const RowMap&) const = default;
};

RowMap row_range(int64_t first, int64_t count);
// Rotary pairs that are stored side by side: row h*d + j*d/2 + i is stored as h*d + 2i + j, for
// head h, half j, pair i.
RowMap rows_of_pairs(int64_t heads, int64_t head_dim);

struct RowGroups {
  int64_t groups = 0;
  int64_t stride = 0;  // stored rows of a group
  int64_t first = 0;   // in each group
  int64_t count = 0;
};
RowMap rows_of_groups(const RowGroups& groups);

}  // namespace am::stored
