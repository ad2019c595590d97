#include "am/formats/parquet/table.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "am/base/map_guard.h"
#include "am/formats/parquet/column.h"

namespace am::formats::parquet {

namespace {

// kLargestRow is the maximum number of bytes that a row may occupy in memory. kMemoryOfValue and
// kMemoryOfJson estimate this number. kBytesOfValue estimates the row's size as a line of JSON.
constexpr int64_t kLargestRow = int64_t{512} << 20;
constexpr int64_t kMemoryOfValue = 64;  // per JSON value in a list that grows, without text
constexpr int64_t kMemoryOfJson = 16;   // of parsed JSON, per byte of its text
constexpr int64_t kBytesOfValue = 8;    // per value, without text

using Columns = std::vector<std::unique_ptr<ColumnReader>>;  // one per leaf; null: not requested

// Assembles the values of the requested columns into rows.
class RowAssembler {
 public:
  RowAssembler(const Schema& schema, const std::vector<const SchemaNode*>& wanted, Columns columns)
      : schema_(schema), wanted_(wanted), columns_(std::move(columns)) {}

  Json next() {
    memory_ = bytes_ = 0;
    Json row = Json::object();
    auto& fields = fields_of(row, wanted_.size());
    for (const SchemaNode* node : wanted_) {
      for (size_t i = node->first_leaf; i < node->end_leaf; ++i) {
        if (columns_[i]->at_end()) fail(i, "has fewer rows than its row group");
        if (columns_[i]->rep() != 0) fail(i, "does not begin with a new row");
      }
      fields.emplace_back(node->name, value_of(*node));
    }
    return row;
  }
  // Throws Error(kFormat) if a column has further rows.
  void finish() const {
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i] != nullptr && !columns_[i]->at_end()) {
        fail(i, "has more rows than its row group");
      }
    }
  }
  // Returns the approximate number of bytes of the last row as a line of JSON.
  int64_t bytes() const { return bytes_; }

 private:
  // Returns the fields of an object, a vector with space for `count` fields. Without this space,
  // the vector would copy its fields when it grows, because the names of fields are const. Callers
  // add fields by emplace_back(), which does not check for equal names; names in a schema are
  // unique.
  static Json::object_t& fields_of(Json& object, size_t count) {
    auto& fields = object.get_ref<Json::object_t&>();
    fields.reserve(count);
    return fields;
  }

  Json value_of(const SchemaNode& node) {
    if (node.optional && !all_reach(node, node.def)) {
      skip_entry(node);
      return {};
    }
    switch (node.kind) {
      case SchemaNode::Kind::kValue:
        return leaf_value(node.first_leaf);
      case SchemaNode::Kind::kStruct: {
        Json made = Json::object();
        auto& fields = fields_of(made, node.children.size());
        for (const SchemaNode& child : node.children) {
          fields.emplace_back(child.name, value_of(child));
        }
        return made;
      }
      case SchemaNode::Kind::kList: {
        Json made = Json::array();
        if (!all_reach(node, node.element_def)) {
          skip_entry(node);
          return made;
        }
        auto& elements = made.get_ref<Json::array_t&>();
        do {
          elements.push_back(value_of(node.children.front()));
        } while (all_continue(node));
        return made;
      }
    }
    return {};
  }

  Json leaf_value(size_t leaf) {
    Json value = columns_[leaf]->take();
    const auto text =
        value.is_string() ? static_cast<int64_t>(value.get_ref<const std::string&>().size()) : 0;
    const bool is_json = schema_.leaves[leaf].kind == ValueKind::kJson;
    memory_ += kMemoryOfValue + text;
    bytes_ += kBytesOfValue + text;
    if (is_json && value.is_structured()) {
      const auto size = static_cast<int64_t>(value.dump().size());
      bytes_ += size;
      memory_ += kMemoryOfJson * size;
    }
    if (memory_ > kLargestRow) fail_unsupported("the row needs more than 512 MiB of memory");
    return value;
  }

  // Whether the current entries of all leaves of the node have at least the definition level `def`.
  // Throws Error(kFormat) if only some of them do.
  bool all_reach(const SchemaNode& node, int def) const {
    return agreed(node, [def](const ColumnReader& column) { return column.def() >= def; });
  }
  // Whether the current entries of all leaves of the list begin another element of the list. Throws
  // Error(kFormat) if only some of them do.
  bool all_continue(const SchemaNode& list) const {
    return agreed(list,
                  [&](const ColumnReader& column) { return column.rep() == list.element_rep; });
  }
  template <typename Holds>
  bool agreed(const SchemaNode& node, const Holds& holds) const {
    const bool first = holds(*columns_[node.first_leaf]);
    for (size_t i = node.first_leaf + 1; i < node.end_leaf; ++i) {
      if (holds(*columns_[i]) != first)
        fail(i, "differs in nulls or list lengths from the other columns of its struct or list");
    }
    return first;
  }

  void skip_entry(const SchemaNode& node) {
    for (size_t i = node.first_leaf; i < node.end_leaf; ++i) leaf_value(i);
  }

  [[noreturn]] void fail(size_t leaf, const char* what) const {
    fail_damaged(cat("column \"", schema_.leaves[leaf].path, "\" ", what));
  }

  const Schema& schema_;
  const std::vector<const SchemaNode*>& wanted_;
  Columns columns_;
  int64_t memory_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace

bool is_parquet(std::string_view file) {
  // A Parquet file with an encrypted footer begins with "PARE". A text may begin with "PARE" too,
  // so the end of the file is checked.
  return starts_with(file, "PAR1") || (starts_with(file, "PARE") && ends_with(file, "PARE"));
}

Table::Table(std::filesystem::path path, Bytes bytes) : path_(std::move(path)), bytes_(bytes) {
  at_place(
      [&] {
        metadata_ = read_metadata(bytes_);
        schema_ = make_schema(metadata_.schema);
        int64_t left = metadata_.rows;
        for (const RowGroup& group : metadata_.groups) {
          if (group.columns.size() != schema_.leaves.size()) {
            fail_damaged("the number of columns of a row group differs from the schema");
          }
          if (group.rows > left) fail_damaged("the row groups have more rows than the file");
          left -= group.rows;
        }
        if (left > 0) fail_damaged("the row groups have fewer rows than the file");
      },
      [&] { return path_.string(); });
}

std::vector<std::string> Table::columns() const {
  std::vector<std::string> names;
  for (const SchemaNode& column : schema_.columns) names.push_back(column.name);
  return names;
}

// Returns the columns with these names, in the order of the file. Throws Error(kFormat) for a
// column that cannot be read, or if two columns have the same name.
std::vector<const SchemaNode*> Table::wanted(std::span<const std::string> names) const {
  std::vector<const SchemaNode*> nodes;
  std::vector<std::string> found;
  for (const SchemaNode& column : schema_.columns) {
    if (std::find(names.begin(), names.end(), column.name) == names.end()) continue;
    const std::string problem = std::find(found.begin(), found.end(), column.name) != found.end()
                                    ? cat("two columns have the name \"", column.name, "\"")
                                    : unreadable_part(column);
    if (!problem.empty()) {
      throw Error(
          ErrorKind::kFormat, cat(path_.string(), ": ", problem),
          "supported are texts, booleans, integers, floating-point numbers, and structs and "
          "lists of these; rename or convert the column, or write the rows as .jsonl");
    }
    found.push_back(column.name);
    nodes.push_back(&column);
  }
  return nodes;
}

void Table::for_each_row(std::span<const std::string> names,
                         const std::function<void(Row)>& visit) const {
  const std::vector<const SchemaNode*> nodes = wanted(names);
  int64_t number = 1;
  const auto in_row = [&](const auto& read) {
    return at_place(read, [&] {
      // If the file has become smaller, its lost bytes read as zeros and look like damage.
      // require_whole() then reports the real cause.
      require_whole(path_, bytes_);
      return cat(path_.string(), ":", number);
    });
  };
  for (const RowGroup& group : metadata_.groups) {
    if (group.rows == 0) continue;
    Columns columns(schema_.leaves.size());
    for (const SchemaNode* node : nodes) {
      for (size_t i = node->first_leaf; i < node->end_leaf; ++i) {
        in_row([&] {
          columns[i] = std::make_unique<ColumnReader>(bytes_, schema_.leaves[i], group.columns[i]);
        });
      }
    }
    RowAssembler rows(schema_, nodes, std::move(columns));
    for (int64_t i = 0; i < group.rows; ++i, ++number) {
      Json object = in_row([&] { return rows.next(); });
      visit({number, std::move(object), rows.bytes()});
    }
    in_row([&] { rows.finish(); });
    require_whole(path_, bytes_);
  }
}

}  // namespace am::formats::parquet
