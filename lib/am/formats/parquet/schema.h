// The columns of a Parquet file as a tree of values, structs and lists.
//
// A file stores only the leaves of the tree: for each leaf, a sequence of entries, from which the
// reader assembles rows. An entry is a value, a null or an empty list, and has two levels:
// - The definition level is the number of optional and repeated nodes on the leaf's path that are
//   present. If the definition level is too low for a node on the path, that node is null, or its
//   list is empty.
// - The repetition level is the depth of the list in which the entry begins a new element; level 0
//   means that the entry begins a new row.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "am/formats/parquet/metadata.h"

namespace am::formats::parquet {

// Kinds of values. The kind determines how a value is converted to JSON.
enum class ValueKind { kBoolean, kSigned, kUnsigned, kFloat, kText, kJson };

struct SchemaNode {
  enum class Kind { kValue, kStruct, kList };

  Kind kind = Kind::kValue;
  std::string name;
  int def = 0;  // lowest definition level at which the node is not null
  bool optional = false;
  // A list has one child, its element.
  int element_def = 0;  // lowest definition level at which the list has an element
  int element_rep = 0;  // repetition level at which another element begins
  std::vector<SchemaNode> children;
  size_t first_leaf = 0;  // Schema::leaves [first_leaf, end_leaf) are the node or below the node
  size_t end_leaf = 0;
  // Description of an unsupported node for messages, for example "a timestamp"; empty if the node
  // is supported.
  std::string unreadable;
};

// A leaf of the tree: a column of entries that the file stores.
struct SchemaLeaf {
  std::string path;  // for example "messages.list.element.role"
  PhysicalType type = PhysicalType::kBoolean;
  ValueKind kind = ValueKind::kBoolean;
  int most_def = 0;  // highest definition level, at which the value is present
  int most_rep = 0;  // highest repetition level
};

struct Schema {
  std::vector<SchemaNode> columns;
  std::vector<SchemaLeaf> leaves;
};

// Returns the tree of columns. Throws Error(kFormat) if the elements do not form a tree, or if
// columns are nested more than 100 deep.
Schema make_schema(const std::vector<SchemaElement>& elements);

// Returns why a column cannot be read, for example `column "a.b" is a date`; empty if it can be.
std::string unreadable_part(const SchemaNode& column);

}  // namespace am::formats::parquet
