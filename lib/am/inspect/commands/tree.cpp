// Defines the command `tree`, which draws modules with their sizes. Consecutive equal layers are
// drawn once, for example as "0-31  (32 alike)".
#include <map>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/commands/table.h"
#include "am/term/table.h"

namespace am::inspect {
namespace {

struct Node {
  std::string name;  // last component of the dotted name
  int64_t elements = 0;
  int64_t bytes = 0;
  std::string shape;  // shape of a parameter as text; empty for a module
  std::vector<Node> children;
};

void insert(Node& root, const std::vector<std::string>& path, const HeldParameter& parameter) {
  Node* node = &root;
  for (const std::string& part : path) {
    node->elements += parameter.numel();
    node->bytes += parameter.bytes();
    Node* next = nullptr;
    for (Node& child : node->children) {
      if (child.name == part) next = &child;
    }
    if (next == nullptr) {
      node->children.push_back({part, 0, 0, {}, {}});
      next = &node->children.back();
    }
    node = next;
  }
  node->elements += parameter.numel();
  node->bytes += parameter.bytes();
  node->shape = shape_text(parameter.shape);
}

// Returns whether two nodes have equal shapes and, at all depths, children with equal names and
// shapes.
bool same_inside(const Node& a, const Node& b) {
  if (a.shape != b.shape || a.children.size() != b.children.size()) return false;
  for (size_t i = 0; i < a.children.size(); ++i) {
    if (a.children[i].name != b.children[i].name || !same_inside(a.children[i], b.children[i])) {
      return false;
    }
  }
  return true;
}

bool is_number(const std::string& name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
}

Json to_json(const Node& node) {
  Json children = Json::array();
  for (const Node& child : node.children) children.push_back(to_json(child));
  return {{"name", node.name},
          {"parameters", node.elements},
          {"bytes", node.bytes},
          {"children", children}};
}

class Drawing {
 public:
  explicit Drawing(const term::Style& style) : style_(style) {}

  void add(const Node& node, const std::string& indent) {
    for (size_t i = 0; i < node.children.size();) {
      size_t end = i + 1;
      while (is_number(node.children[i].name) && end < node.children.size() &&
             is_number(node.children[end].name) &&
             same_inside(node.children[i], node.children[end])) {
        ++end;
      }
      add_line(node.children[i], node.children[end - 1], end - i, end == node.children.size(),
               indent);
      i = end;
    }
  }

  std::string text() const { return table_.text(style_); }

 private:
  void add_line(const Node& first, const Node& last, size_t count, bool is_last,
                const std::string& indent) {
    const std::string branch =
        style_.unicode ? (is_last ? "└─ " : "├─ ") : (is_last ? "`- " : "|- ");
    const std::string trunk = is_last ? "   " : (style_.unicode ? "│  " : "|  ");
    const bool one_leaf = first.children.size() == 1 && !first.children.front().shape.empty();
    const Node& leaf = one_leaf ? first.children.front() : first;
    std::string label = one_leaf ? cat(first.name, ".", leaf.name) : first.name;
    if (count > 1) label += cat("-", last.name, "  (", count, " alike)");
    if (!leaf.shape.empty()) label += "  " + leaf.shape;
    const auto times = static_cast<int64_t>(count);
    table_.add({indent + branch + label, format_count(first.elements * times),
                format_bytes(first.bytes * times)});
    add(leaf, indent + trunk);
  }

  const term::Style& style_;
  term::Table table_{
      {{"module"}, {"elements", term::Align::kRight}, {"size", term::Align::kRight}}};
};

}  // namespace

Result run_tree(Session& session, const Arguments& arguments) {
  const std::string module = arguments.words.empty() ? "" : arguments.words.front();
  Node root;
  for (const HeldParameter* parameter : session.matching(module)) {
    insert(root, split(parameter->name, '.'), *parameter);
  }
  Result result;
  result.json["tree"] = to_json(root);
  Drawing drawing(session.style());
  drawing.add(root, "");
  result.text = drawing.text();
  return result;
}

}  // namespace am::inspect
