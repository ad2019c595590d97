#include "am/config/yaml_reader.h"

#include <yaml.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "am/base/text.h"
#include "am/config/places.h"

namespace am::config {
namespace {

// Maximum number of values in all anchored nodes and in all copies that aliases make. A training
// recipe needs far fewer; a file of nested aliases could produce far more.
constexpr size_t kMostCopies = size_t{1} << 14;

struct Stop {};  // thrown once the first error has been reported

// Converts libyaml's character offsets to byte offsets. Offsets are mostly requested in ascending
// order, so each conversion continues to count where the previous conversion stopped.
class Offsets {
 public:
  explicit Offsets(std::string_view text) : text_(text) {
    if (starts_with(text, "\xEF\xBB\xBF")) begin_ = at_ = 3;  // libyaml does not count a BOM
  }

  size_t of(size_t character) {
    if (character < character_) {
      at_ = begin_;
      character_ = 0;
    }
    for (; character_ < character && at_ < text_.size(); ++character_) {
      do ++at_;
      while (at_ < text_.size() && (static_cast<unsigned char>(text_[at_]) & 0xC0U) == 0x80U);
    }
    return at_;
  }

 private:
  std::string_view text_;
  size_t begin_ = 0, at_ = 0, character_ = 0;
};

// A libyaml parser and its current event.
class Events {
 public:
  explicit Events(std::string_view text) {
    yaml_parser_initialize(&parser_);
    // The cast is needed because libyaml reads unsigned char, but `text` consists of char.
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                 text.size());
  }
  ~Events() {
    yaml_event_delete(&event_);
    yaml_parser_delete(&parser_);
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  // Advances to the next event. Returns false if the text is invalid at this point.
  bool next() {
    yaml_event_delete(&event_);
    return yaml_parser_parse(&parser_, &event_) == 1;
  }
  const yaml_event_t& event() const { return event_; }
  const yaml_parser_t& parser() const { return parser_; }

 private:
  yaml_parser_t parser_ = {};
  yaml_event_t event_ = {};
};

std::string text_of(const yaml_char_t* text) {
  return text == nullptr ? "" : reinterpret_cast<const char*>(text);
}

// Size of a value: the number of values in it, itself included, and the number of levels of nesting
// below it.
struct Size {
  size_t values = 1;
  int levels = 0;
};
Size size_of(const Value& value) {
  Size size;
  const auto add = [&size](const Value& inner) {
    const Size of = size_of(inner);
    size.values += of.values;
    size.levels = std::max(size.levels, of.levels + 1);
  };
  for (const Value& item : value.items) add(item);
  for (const Member& member : value.members) add(member.value);
  return size;
}

class YamlReader {
 public:
  YamlReader(std::string_view text, const std::string& file, Diagnostics& found)
      : events_(text), offsets_(text), places_(text, file), found_(found) {}

  Value document() {
    Value root;
    root.span = places_.span(0);
    next();  // reads YAML_STREAM_START_EVENT
    next();
    if (event().type == YAML_STREAM_END_EVENT) return root;
    next();
    const Span begin = span();
    if (auto value = node(0)) root = std::move(*value);
    if (root.kind == Value::Kind::kArray) fail("the document is a list, not a mapping", begin);
    if (!root.is_table()) fail("the document is one value, not a mapping", begin);
    next();  // reads YAML_DOCUMENT_END_EVENT
    next();
    if (event().type != YAML_STREAM_END_EVENT) fail("the file has a second document", span());
    return root;
  }

 private:
  const yaml_event_t& event() const { return events_.event(); }
  Span span(const yaml_mark_t& mark) { return places_.span(offsets_.of(mark.index)); }
  Span span() { return span(event().start_mark); }

  [[noreturn]] void fail(const std::string& message, const Span& where) {
    found_.error("exchange.syntax", where, message,
                 "write YAML or JSON with mappings, lists and scalars only");
    throw Stop{};
  }

  void next() {
    if (events_.next()) return;
    const yaml_parser_t& parser = events_.parser();
    const std::string problem = parser.problem == nullptr ? "the text is not YAML" : parser.problem;
    if (parser.error == YAML_READER_ERROR) fail(problem, places_.span(parser.problem_offset));
    const std::string context = parser.context == nullptr ? "" : parser.context;
    // An error for an unclosed quote points to the opening quote.
    const bool at_context = context == "while scanning a quoted scalar";
    fail(context.empty() ? problem : cat(context, ": ", problem),
         span(at_context ? parser.context_mark : parser.problem_mark));
  }

  // Reads the value that begins with the current event, and stops at the value's last event.
  std::optional<Value> node(int depth) {
    if (depth > kDeepest)
      fail(cat("the values are nested more than ", kDeepest, " levels deep"), span());
    std::optional<Value> value;
    std::string anchor;
    switch (event().type) {
      case YAML_ALIAS_EVENT:
        return alias(depth);
      case YAML_SCALAR_EVENT:
        anchor = begin_node(event().data.scalar.anchor, event().data.scalar.tag);
        value = scalar();
        break;
      case YAML_SEQUENCE_START_EVENT:
        anchor = begin_node(event().data.sequence_start.anchor, event().data.sequence_start.tag);
        value = sequence(depth);
        break;
      default:
        anchor = begin_node(event().data.mapping_start.anchor, event().data.mapping_start.tag);
        value = mapping(depth);
    }
    if (!anchor.empty()) {
      count_copies(value);
      anchors_[anchor] = value;
    }
    return value;
  }

  std::string begin_node(const yaml_char_t* anchor, const yaml_char_t* tag) {
    if (tag != nullptr) fail("tags (!) are not supported", span());
    return text_of(anchor);
  }

  Size count_copies(const std::optional<Value>& value) {
    const Size size = value.has_value() ? size_of(*value) : Size{};
    copies_ += size.values;
    if (copies_ > kMostCopies) {
      fail(cat("anchors and aliases expand to more than ", kMostCopies, " values"), span());
    }
    return size;
  }

  std::optional<Value> alias(int depth) {
    const std::string name = text_of(event().data.alias.anchor);
    const auto found = anchors_.find(name);
    if (found == anchors_.end())
      fail(cat("the alias *", name, " has no anchor &", name, " before it"), span());
    if (depth + count_copies(found->second).levels > kDeepest) {
      fail(cat("the values are nested more than ", kDeepest, " levels deep"), span());
    }
    return found->second;
  }

  std::optional<Value> scalar() {
    const auto& scalar = event().data.scalar;
    std::string text(reinterpret_cast<const char*>(scalar.value), scalar.length);
    if (scalar.style == YAML_PLAIN_SCALAR_STYLE) return plain_value(text, span());
    return text_at(span(), std::move(text));
  }

  static Value text_at(Span where, std::string text) {
    Value value;
    value.kind = Value::Kind::kText;
    value.span = std::move(where);
    value.text = std::move(text);
    return value;
  }

  std::optional<Value> sequence(int depth) {
    Value out;
    out.kind = Value::Kind::kArray;
    out.span = span();
    out.is_inline = event().data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
    for (next(); event().type != YAML_SEQUENCE_END_EVENT; next()) {
      const Span where = span();
      auto item = node(depth + 1);
      out.items.push_back(item ? std::move(*item) : text_at(where, "null"));
    }
    return out;
  }

  std::optional<Value> mapping(int depth) {
    Value out;
    out.span = span();
    out.is_inline = event().data.mapping_start.style == YAML_FLOW_MAPPING_STYLE;
    std::set<std::string> names;  // all keys, those with null included: they override merged keys
    std::vector<std::pair<Span, std::optional<Value>>> merged;
    for (next(); event().type != YAML_MAPPING_END_EVENT; next()) {
      const Span where = span();
      if (event().type != YAML_SCALAR_EVENT) fail("a key is not text", where);
      const auto& scalar = event().data.scalar;
      std::string name(reinterpret_cast<const char*>(scalar.value), scalar.length);
      const bool merges = scalar.style == YAML_PLAIN_SCALAR_STYLE && name == "<<";
      next();
      auto value = node(depth + 1);
      if (merges) {
        merged.emplace_back(where, std::move(value));
      } else if (!names.insert(name).second) {
        fail(cat("the key \"", name, "\" is written twice"), where);
      } else if (value.has_value()) {
        out.members.push_back({std::move(name), where, std::move(*value)});
      }
    }
    for (auto& [where, value] : merged) merge(where, std::move(value), names, out);
    return out;
  }

  // Merges (`<<`) the members of `from`, a mapping or a list of mappings, into the mapping `out`.
  // Skips the keys in `names`: the keys written in `out` itself, and the keys merged before.
  void merge(const Span& where, std::optional<Value> from, std::set<std::string>& names,
             Value& out) {
    if (!from.has_value()) fail("<< must be followed by a mapping or a list of mappings", where);
    if (from->kind == Value::Kind::kArray) {
      for (Value& item : from->items) merge(where, std::move(item), names, out);
      return;
    }
    if (!from->is_table()) fail("<< must be followed by a mapping or a list of mappings", where);
    for (Member& member : from->members) {
      if (names.insert(member.key).second) out.members.push_back(std::move(member));
    }
  }

  Events events_;
  Offsets offsets_;
  Places places_;
  Diagnostics& found_;
  std::map<std::string, std::optional<Value>> anchors_;
  size_t copies_ = 0;
};

}  // namespace

std::optional<Value> read_yaml(std::string_view text, const std::string& file, Diagnostics& found) {
  try {
    return YamlReader(text, file, found).document();
  } catch (const Stop&) {
    return std::nullopt;
  }
}

}  // namespace am::config
