#include <algorithm>
#include <cmath>

#include "am/base/text.h"
#include "am/chat/builtin.h"
#include "am/chat/characters.h"

namespace am::chat {
namespace {

// Writes a value as Python's json.dumps does.
class JsonWriter {
 public:
  explicit JsonWriter(Call& call)
      : heap_(call.heap), ascii_(call.flag(0, false)), sorted_(call.flag(3, false)) {
    has_indent_ = call.has(1) && !call[1].is(Kind::kNone);
    if (has_indent_) {
      if (call[1].is(Kind::kText)) {
        indent_ = call[1].string;
      } else {
        const Int width = call.integer(1, 0);
        if (width > heap_.bytes_left()) heap_.charge(INT64_MAX);
        indent_.assign(static_cast<size_t>(std::max(width, Int{0})), ' ');
      }
      between_ = ",";
    }
    if (!call.has(2) || call[2].is(Kind::kNone)) return;
    const std::vector<Value> separators = elements(call[2], heap_);
    if (separators.size() != 2 || !separators[0].is(Kind::kText) ||
        !separators[1].is(Kind::kText)) {
      throw Failure("tojson() takes two texts as separators");
    }
    between_ = separators[0].string;
    behind_key_ = separators[1].string;
  }

  std::string write(const Value& value) {
    append(value, 1);
    return std::move(out_);
  }

 private:
  void append(const Value& value, int depth) {
    heap_.step();
    if (static_cast<int64_t>(out_.size()) > heap_.bytes_left()) heap_.charge(INT64_MAX);
    switch (value.kind) {
      case Kind::kText:
        append_text(value.string);
        break;
      case Kind::kList:
      case Kind::kTuple:
        append_list(value.list->items, depth);
        break;
      case Kind::kDict:
        append_dict(*value.dict, depth);
        break;
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat:
        out_ += scalar(value);
        break;
      default:
        throw Failure(cat("Object of type ", type_name(value), " is not JSON serializable"));
    }
  }

  static std::string scalar(const Value& value) {
    if (value.is(Kind::kNone)) return "null";
    if (value.is(Kind::kBool)) return value.boolean ? "true" : "false";
    if (value.is(Kind::kInt)) return int_text(value.number);
    if (std::isnan(value.real)) return "NaN";
    if (std::isinf(value.real)) return value.real < 0 ? "-Infinity" : "Infinity";
    return float_text(value.real);
  }

  void new_line(int depth) {
    if (!has_indent_) return;
    out_ += '\n';
    for (int i = 0; i < depth; ++i) out_ += indent_;
    if (static_cast<int64_t>(out_.size()) > heap_.bytes_left()) heap_.charge(INT64_MAX);
  }

  void append_list(const std::vector<Value>& items, int depth) {
    out_ += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += between_;
      new_line(depth);
      append(items[i], depth + 1);
    }
    if (!items.empty()) new_line(depth - 1);
    out_ += ']';
  }

  void append_dict(const Dict& dict, int depth) {
    std::vector<std::pair<Value, Value>> items = dict.items;
    if (sorted_) {
      std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
        return compare(a.first, b.first, "<", heap_) == -1;
      });
    }
    out_ += '{';
    for (size_t i = 0; i < items.size(); ++i) {
      const Value& key = items[i].first;
      if (i > 0) out_ += between_;
      new_line(depth);
      if (key.is(Kind::kText)) {
        append_text(key.string);
      } else if (key.is(Kind::kNone) || key.is_number()) {
        append_text(scalar(key));
      } else {
        throw Failure(cat("keys must be str, int, float, bool or None, not ", type_name(key)));
      }
      out_ += behind_key_;
      append(items[i].second, depth + 1);
    }
    if (!items.empty()) new_line(depth - 1);
    out_ += '}';
  }

  void append_text(std::string_view text) {
    heap_.scan(text.size());
    out_ += '"';
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const char32_t c = next_character(text, at);
      static constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b";
      const size_t known = c < 0x80 ? kEscaped.find(static_cast<char>(c)) : std::string_view::npos;
      if (known != std::string_view::npos) {
        out_ += '\\';
        out_ += "\"\\nrtfb"[known];
      } else if (c < 0x20 || (ascii_ && c > 0x7E)) {
        append_code(c);
      } else {
        out_ += text.substr(begin, at - begin);
      }
    }
    out_ += '"';
  }

  void append_code(char32_t c) {
    if (c > 0xFFFF) {
      append_code(0xD800 + ((c - 0x10000) >> 10));
      c = 0xDC00 + ((c - 0x10000) & 0x3FF);
    }
    const std::string digits = int_text(static_cast<Int>(c), 16);
    out_ += cat("\\u", std::string(4 - digits.size(), '0'), digits);
  }

  Heap& heap_;
  bool ascii_, sorted_;
  bool has_indent_ = false;
  std::string indent_, between_ = ", ", behind_key_ = ": ";
  std::string out_;
};

}  // namespace

Value json_dumps(Call& call) { return call.heap.text(JsonWriter(call).write(call.self)); }

}  // namespace am::chat
