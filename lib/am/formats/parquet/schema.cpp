#include "am/formats/parquet/schema.h"

#include <optional>
#include <set>
#include <utility>

namespace am::formats::parquet {

namespace {

constexpr int kDeepestSchema = 100;  // limit of nesting, because rows are assembled recursively

// Returns the kind of a leaf's values; nullopt if values of the leaf's type are not supported.
std::optional<ValueKind> kind_of(const SchemaElement& leaf) {
  if (leaf.logical == LogicalType::kOther) return std::nullopt;
  switch (*leaf.type) {
    case PhysicalType::kBoolean:
      return ValueKind::kBoolean;
    case PhysicalType::kInt32:
    case PhysicalType::kInt64:
      return leaf.logical == LogicalType::kUnsigned ? ValueKind::kUnsigned : ValueKind::kSigned;
    case PhysicalType::kFloat:
    case PhysicalType::kDouble:
      return ValueKind::kFloat;
    case PhysicalType::kByteArray:
      return leaf.logical == LogicalType::kJson ? ValueKind::kJson : ValueKind::kText;
    case PhysicalType::kInt96:
    case PhysicalType::kFixedByteArray:
      break;
  }
  return std::nullopt;
}

class SchemaBuilder {
 public:
  explicit SchemaBuilder(const std::vector<SchemaElement>& elements) : elements_(elements) {}

  Schema build() {
    const SchemaElement& root = take();
    if (root.type) fail_damaged("the schema has no root");
    for (int64_t i = 0; i < root.children; ++i) schema_.columns.push_back(node({}, {}));
    if (next_ != elements_.size()) fail_damaged("the schema has elements outside its tree");
    return std::move(schema_);
  }

 private:
  // Definition and repetition level of the enclosing node.
  struct Levels {
    int def = 0;
    int rep = 0;
  };

  const SchemaElement& take() {
    if (next_ >= elements_.size()) fail_damaged("the schema ends early");
    return elements_[next_++];
  }
  // Returns the next element without consuming it; null at the end.
  const SchemaElement* peek() const {
    return next_ < elements_.size() ? &elements_[next_] : nullptr;
  }

  SchemaNode node(Levels outer, std::string path) {
    const SchemaElement& element = take();
    if (++depth_ > kDeepestSchema) fail_damaged("the schema is nested too deeply");
    path += (path.empty() ? "" : ".") + element.name;
    SchemaNode made;
    const size_t first_leaf = schema_.leaves.size();
    if (element.repetition == Repetition::kRepeated) {  // a list without an enclosing LIST group
      made = list_of(outer, [&](Levels inner) { return content(element, inner, path); });
    } else {
      const bool optional = element.repetition == Repetition::kOptional;
      if (optional) ++outer.def;
      made = is_list(element) ? list(element, outer, path) : content(element, outer, path);
      made.optional = optional;
    }
    made.name = element.name;
    made.first_leaf = first_leaf;
    made.end_leaf = schema_.leaves.size();
    --depth_;
    return made;
  }

  // Whether the element, which take() has just returned, is a LIST group with one repeated child.
  bool is_list(const SchemaElement& element) const {
    return element.logical == LogicalType::kList && !element.type && element.children == 1 &&
           peek() != nullptr && peek()->repetition == Repetition::kRepeated;
  }

  // Reads the repeated node of a list. Usually this node is a group with one child, the element of
  // the list. In files of older writers, the repeated node is itself the element. parquet-format's
  // LogicalTypes.md contains the rules that distinguish these two cases.
  SchemaNode list(const SchemaElement& outer_element, Levels outer, const std::string& path) {
    const SchemaElement& repeated = take();
    const std::string below = cat(path, ".", repeated.name);
    const bool wraps = !repeated.type && repeated.children == 1 && repeated.name != "array" &&
                       repeated.name != outer_element.name + "_tuple" && peek() != nullptr &&
                       peek()->repetition != Repetition::kRepeated;
    return list_of(outer, [&](Levels inner) {
      return wraps ? node(inner, below) : content(repeated, inner, below);
    });
  }

  template <typename Element>
  SchemaNode list_of(Levels outer, const Element& element) {
    SchemaNode made;
    made.kind = SchemaNode::Kind::kList;
    made.def = outer.def;
    made.element_def = outer.def + 1;
    made.element_rep = outer.rep + 1;
    const size_t first_leaf = schema_.leaves.size();
    made.children.push_back(element(Levels{outer.def + 1, outer.rep + 1}));
    made.children.front().first_leaf = first_leaf;
    made.children.front().end_leaf = schema_.leaves.size();
    return made;
  }

  // Returns the node of a value or a struct. `levels`: the node is present if an entry's definition
  // level is at least `levels.def`; `levels.rep` is the number of lists around the node.
  SchemaNode content(const SchemaElement& element, Levels levels, const std::string& path) {
    SchemaNode made;
    made.def = levels.def;
    made.name = element.name;
    if (element.logical == LogicalType::kOther) made.unreadable = element.logical_name;
    if (element.type) {
      const auto kind = kind_of(element);
      if (!kind && made.unreadable.empty()) made.unreadable = name_of(*element.type);
      schema_.leaves.push_back(
          {path, *element.type, kind.value_or(ValueKind::kText), levels.def, levels.rep});
      return made;
    }
    made.kind = SchemaNode::Kind::kStruct;
    if (element.children == 0) made.unreadable = "a struct without fields";
    std::set<std::string> names;
    for (int64_t i = 0; i < element.children; ++i) {
      made.children.push_back(node(levels, path));
      if (!names.insert(made.children.back().name).second) {
        made.unreadable = cat("a struct with two fields \"", made.children.back().name, "\"");
      }
    }
    return made;
  }

  const std::vector<SchemaElement>& elements_;
  size_t next_ = 0;
  int depth_ = 0;
  Schema schema_;
};

// Returns the path of the first node that cannot be read, and the reason; empty if `node` and all
// nodes below can be read.
std::string unreadable_below(const SchemaNode& node, const std::string& path) {
  if (!node.unreadable.empty()) return cat("column \"", path, "\" is ", node.unreadable);
  for (const SchemaNode& child : node.children) {
    const bool is_element = node.kind == SchemaNode::Kind::kList;
    std::string found = unreadable_below(child, is_element ? path : cat(path, ".", child.name));
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace

Schema make_schema(const std::vector<SchemaElement>& elements) {
  return SchemaBuilder(elements).build();
}

std::string unreadable_part(const SchemaNode& column) {
  return unreadable_below(column, column.name);
}

}  // namespace am::formats::parquet
