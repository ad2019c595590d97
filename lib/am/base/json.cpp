#include "am/base/json.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am {
namespace {

Span span_at(std::string_view text, const std::string& file, size_t offset, size_t length) {
  offset = std::min(offset, text.size());
  const size_t previous = offset == 0 ? std::string_view::npos : text.rfind('\n', offset - 1);
  const size_t line_begin = previous == std::string_view::npos ? 0 : previous + 1;
  const size_t line_end = std::min(text.find('\n', line_begin), text.size());
  Span span;
  span.file = file;
  span.line = 1 + static_cast<int>(std::count(text.begin(), text.begin() + line_begin, '\n'));
  span.column = 1 + character_count(text.substr(line_begin, offset - line_begin));
  span.length = std::max(1, character_count(text.substr(offset, length)));
  // A config can be a single line of a megabyte; printing that line under an error would not help.
  constexpr size_t kLongestLine = 400;
  if (line_end - line_begin <= kLongestLine) {
    span.source = std::string(text.substr(line_begin, line_end - line_begin));
    if (!span.source.empty() && span.source.back() == '\r') span.source.pop_back();
  }
  return span;
}

constexpr int kDeepest = 100;

// Returns the offset at which brackets nest deeper than kDeepest; npos if they do not.
size_t too_deep(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\' ? 1 : 0;
    } else if (c == '{' || c == '[') {
      if (++depth > kDeepest) return i;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return std::string_view::npos;
}

// Replaces the numbers NaN, Infinity and -Infinity, which Python's json writes but nlohmann's
// parser rejects, by strings that begin with `mark_`. The mark does not occur in the file. While
// nlohmann's parser runs, restore() converts these strings back to numbers.
class PythonNumbers {
 public:
  explicit PythonNumbers(std::string_view text) {
    while (text.find(mark_) != std::string_view::npos) mark_ += '_';
    size_t copied = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '"') {
        for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\' ? 1 : 0;
        continue;
      }
      const Name* name = name_at(text, i);
      if (name == nullptr) continue;
      text_.append(text.substr(copied, i - copied));
      text_ += cat('"', mark_, name->text, '"');
      copied = i + name->text.size();
      shifts_.push_back({text_.size(), copied});
      i = copied - 1;
    }
    if (shifts_.empty()) return;
    text_.append(text.substr(copied));
  }

  bool any() const { return !shifts_.empty(); }
  const std::string& text() const { return text_; }
  // Returns the offset in the original file that corresponds to an offset in text(), the text with
  // replacements.
  size_t offset_in_file(size_t offset) const {
    size_t in_file = offset;
    for (const Shift& shift : shifts_) {
      if (offset >= shift.end) in_file = shift.end_in_file + (offset - shift.end);
    }
    return in_file;
  }
  template <typename AnyJson>
  void restore(AnyJson& value) const {
    if (!value.is_string()) return;
    const auto& text = value.template get_ref<const std::string&>();
    if (!starts_with(text, mark_)) return;
    for (const Name& name : kNames) {
      if (std::string_view(text).substr(mark_.size()) == name.text) {
        value = name.value;
        return;
      }
    }
  }

 private:
  struct Name {
    std::string_view text;
    double value;
  };
  struct Shift {
    size_t end;          // offset in text_ of the first character after a replaced number
    size_t end_in_file;  // offset of this character in the original file
  };
  static constexpr std::array<Name, 3> kNames = {
      {{"NaN", std::numeric_limits<double>::quiet_NaN()},
       {"Infinity", std::numeric_limits<double>::infinity()},
       {"-Infinity", -std::numeric_limits<double>::infinity()}}};

  static const Name* name_at(std::string_view text, size_t at) {
    for (const Name& name : kNames) {
      if (!starts_with(text.substr(at), name.text)) continue;
      const size_t next = text.find_first_not_of(" \t\r\n", at + name.text.size());
      return next != std::string_view::npos && text[next] == ':' ? nullptr
                                                                 : &name;  // ':' follows only keys
    }
    return nullptr;
  }

  std::string mark_ = "number ";
  std::string text_;
  std::vector<Shift> shifts_;
};

template <typename AnyJson>
AnyJson parse_python(std::string_view text, const PythonNumbers& numbers) {
  if (!numbers.any()) return AnyJson::parse(text);
  using Event = typename AnyJson::parse_event_t;
  return AnyJson::parse(numbers.text(), [&](int, Event event, AnyJson& value) {
    if (event == Event::value) numbers.restore(value);
    return true;
  });
}

template <typename AnyJson>
std::optional<AnyJson> parse(std::string_view text, const std::string& file, Diagnostics& found) {
  if (const size_t at = too_deep(text); at != std::string_view::npos) {
    found.error("json.syntax", span_at(text, file, at, 1),
                "brackets nest more than " + std::to_string(kDeepest) + " levels deep");
    return std::nullopt;
  }
  const PythonNumbers numbers(text);
  try {
    return parse_python<AnyJson>(text, numbers);
  } catch (const typename AnyJson::parse_error& error) {
    // `error.byte` is the number of the last byte read, counted from 1.
    const size_t offset = numbers.offset_in_file(error.byte == 0 ? 0 : error.byte - 1);
    found.error("json.syntax", span_at(text, file, offset, 1), json_reason(error));
  } catch (const typename AnyJson::exception& error) {  // a number out of range
    found.error("json.syntax", Span{file, 0, 0, 1, {}}, json_reason(error));
  }
  return std::nullopt;
}

}  // namespace

bool nests_too_deeply(std::string_view text) { return too_deep(text) != std::string_view::npos; }

std::optional<Json> parse_json(std::string_view text, const std::string& file, Diagnostics& found) {
  return parse<Json>(text, file, found);
}

std::optional<SortedJson> parse_sorted_json(std::string_view text, const std::string& file,
                                            Diagnostics& found) {
  return parse<SortedJson>(text, file, found);
}

Json parse_json_object(std::string_view text, const std::string& file) {
  Diagnostics found;
  auto json = parse_json(text, file, found);
  if (json && json->is_object()) return *std::move(json);
  if (json) throw Error(ErrorKind::kFormat, cat(file, ": does not hold a JSON object"));
  const Diagnostic& first = found.items().front();
  const std::string place =
      first.span.line > 0 ? cat(":", first.span.line, ":", first.span.column) : std::string();
  throw Error(ErrorKind::kFormat, cat(file, place, ": not JSON: ", first.message));
}

// Returns the REASON in nlohmann's messages, which have the forms "[json.exception.parse_error.101]
// parse error at line 1, column 2: REASON" and "[json.exception.type_error.302] REASON".
std::string json_reason(const std::exception& error) {
  std::string text = error.what();
  if (!starts_with(text, "[json.exception.")) return text;
  text.erase(0, std::min(text.size(), text.find("] ") + 2));
  if (!starts_with(text, "parse error")) return text;
  const size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

Span find_json_key(std::string_view text, const std::string& file, std::string_view key) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c != '"') continue;
    const size_t begin = i++;
    while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
    if (i >= text.size()) break;
    const size_t next = text.find_first_not_of(" \t\r\n", i + 1);
    const bool is_key = next != std::string_view::npos && text[next] == ':';
    if (depth == 1 && is_key && text.substr(begin + 1, i - begin - 1) == key) {
      return span_at(text, file, begin, i + 1 - begin);
    }
  }
  Span span;
  span.file = file;
  return span;
}

std::string dump_json(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string dump_json(const SortedJson& json, int indent) {
  return json.dump(indent, ' ', false, SortedJson::error_handler_t::replace);
}

namespace {

bool has_only_utf8(const Json& json) {
  if (json.is_string()) return is_utf8(json.get_ref<const std::string&>());
  if (json.is_array()) return std::all_of(json.begin(), json.end(), has_only_utf8);
  if (!json.is_object()) return true;
  const auto& members = json.get_ref<const Json::object_t&>();
  return std::all_of(members.begin(), members.end(), [](const auto& member) {
    return is_utf8(member.first) && has_only_utf8(member.second);
  });
}

std::string quoted_bytes(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    size_t whole = 0;
    while (const size_t length = utf8_length(text.substr(whole))) whole += length;
    const std::string part = Json(std::string(text.substr(0, whole))).dump();
    out.append(part, 1, part.size() - 2);
    text.remove_prefix(whole);
    if (text.empty()) break;
    std::array<char, 8> escape{};
    std::snprintf(escape.data(), escape.size(), "\\udc%02x",
                  static_cast<unsigned>(static_cast<unsigned char>(text.front())));
    out += escape.data();
    text.remove_prefix(1);
  }
  return out + "\"";
}

void append_bytes(const Json& json, int indent, int depth, std::string& out) {
  const auto line = [&](int level) {
    if (indent >= 0) out += "\n" + std::string(static_cast<size_t>(indent * level), ' ');
  };
  if (json.is_string()) {
    out += quoted_bytes(json.get_ref<const std::string&>());
  } else if (!json.is_structured() || json.empty()) {
    out += dump_json(json, indent);
  } else {
    out += json.is_object() ? '{' : '[';
    const char* separator = "";
    for (auto item = json.begin(); item != json.end(); ++item) {
      out += separator;
      separator = ",";
      line(depth + 1);
      if (json.is_object()) out += cat(quoted_bytes(item.key()), indent >= 0 ? ": " : ":");
      append_bytes(*item, indent, depth + 1, out);
    }
    line(depth);
    out += json.is_object() ? '}' : ']';
  }
}

}  // namespace

std::string dump_json_bytes(const Json& json, int indent) {
  if (has_only_utf8(json)) return dump_json(json, indent);
  std::string out;
  append_bytes(json, indent, 0, out);
  return out;
}

Json to_json(const Diagnostic& diagnostic) {
  Json out = Json::object();
  out["rule"] = diagnostic.rule;
  out["severity"] = to_string(diagnostic.severity);
  out["file"] = diagnostic.span.file;
  const auto place = [](int at) { return at > 0 ? Json(at) : Json(nullptr); };
  out["line"] = place(diagnostic.span.line);
  out["column"] = place(diagnostic.span.column);
  out["message"] = diagnostic.message;
  out["help"] = diagnostic.help;
  return out;
}

Json to_json(const Diagnostics& diagnostics) {
  Json out = Json::array();
  for (const Diagnostic& diagnostic : diagnostics.items()) out.push_back(to_json(diagnostic));
  return out;
}

}  // namespace am
