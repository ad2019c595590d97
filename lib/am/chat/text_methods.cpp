#include <string.h>  // NOLINT(modernize-deprecated-headers): memmem is not in <cstring>

#include <algorithm>
#include <array>

#include "am/base/text.h"
#include "am/chat/builtin.h"
#include "am/chat/characters.h"
#include "am/chat/interpreter.h"

namespace am::chat {
namespace {

using Place = size_t;
constexpr Place kNowhere = std::string_view::npos;

// Return a value that is marked as safe (Value::safe) if `self` is. part_of() is for a part of the
// text of `self`, which is not copied; made_text() is for a new text.
Value part_of(const Call& call, std::string_view text) { return Value::text(text, call.self.safe); }
Value made_text(const Call& call, std::string text) {
  return call.heap.text(std::move(text), call.self.safe);
}

bool is_given_set(const Call& call, size_t i) { return call.has(i) && !call[i].is(Kind::kNone); }

template <bool left, bool right>
Value strip(Call& call) {
  std::string_view text = call.self_text().string;
  const std::string_view set = is_given_set(call, 0) ? call.text(0, "") : std::string_view();
  call.heap.scan(set.empty() ? 0 : text.size() * set.size());
  const std::string_view* const characters = is_given_set(call, 0) ? &set : nullptr;
  if (left) text = strip_left(text, characters);
  if (right) text = strip_right(text, characters);
  return part_of(call, text);
}

// Returns the part of `self` between the character indices in arguments `i` and `i + 1`, and the
// byte offset of this part in `self`. The offset is kNowhere if the first index is larger than the
// second.
std::pair<std::string_view, size_t> bounded(const Call& call, size_t i) {
  const std::string_view text = call.self_text().string;
  if (!call.has(i)) return {text, 0};
  const auto count = static_cast<Int>(length(text));
  const auto place = [&](size_t at, Int otherwise) {
    if (!is_given_set(call, at)) return otherwise;
    const Int index = call.integer(at, 0);
    return std::clamp(index < 0 ? index + count : index, Int{0}, index > count ? index : count);
  };
  const Int begin = place(i, 0);
  const Int end = std::min(place(i + 1, count), count);
  if (begin > end) return {std::string_view(), kNowhere};
  const size_t from = byte_offset(text, static_cast<size_t>(begin));
  const std::string_view rest = text.substr(from);
  return {rest.substr(0, byte_offset(rest, static_cast<size_t>(end - begin))), from};
}

template <bool at_end>
Value has_affix(Call& call) {
  const auto [text, from] = bounded(call, 1);
  std::vector<Value> affixes{call[0]};
  if (call[0].is(Kind::kTuple)) affixes = call[0].list->items;
  for (const Value& affix : affixes) {
    if (!affix.is(Kind::kText)) throw Failure("startswith and endswith take str or a tuple of str");
    call.heap.scan(affix.string.size());
    if (from == kNowhere) continue;
    if (at_end ? ends_with(text, affix.string) : starts_with(text, affix.string))
      return truth(true);
  }
  return truth(false);
}

// Returns the byte offset of the last `part` in `text`; kNowhere if `text` does not contain `part`.
Place find_last(Heap& heap, std::string_view text, std::string_view part) {
  heap.scan(std::min(text.size() * part.size(), text.size() << 20));
  return text.rfind(part);
}

template <bool last, bool must_exist>
Value find_place(Call& call) {
  const auto [text, from] = bounded(call, 1);
  const std::string_view wanted = call.text(0, "");
  Place place = kNowhere;
  if (from != kNowhere) place = last ? find_last(call.heap, text, wanted) : find_text(text, wanted);
  if (place != kNowhere) {
    const std::string_view before = call.self_text().string.substr(0, from + place);
    return Value::integer(static_cast<Int>(length(before)));
  }
  if (must_exist) throw Failure("substring not found");
  return Value::integer(-1);
}

// Returns the number of occurrences of `part` in `text`, without overlaps.
size_t count_of(std::string_view text, std::string_view part) {
  if (part.empty()) return length(text) + 1;
  size_t found = 0;
  for (size_t at = 0; (at = find_text(text, part, at)) != kNowhere; at += part.size()) ++found;
  return found;
}

Value count_method(Call& call) {
  const auto [text, from] = bounded(call, 1);
  return Value::integer(from == kNowhere ? 0 : static_cast<Int>(count_of(text, call.text(0, ""))));
}

// ---- splitting ----

// Returns the largest number of splits that argument `i` allows. If the argument is negative or
// missing, the number is unlimited (INT64_MAX).
Int most_splits(const Call& call, size_t i) {
  const Int most = call.count(i, -1);
  return most < 0 ? INT64_MAX : most;
}

Value parts_value(const Call& call, const std::vector<std::string_view>& parts) {
  std::vector<Value> out;
  for (const std::string_view text : parts) out.push_back(part_of(call, text));
  return call.heap.list(std::move(out));
}

std::vector<std::string_view> split_spaces(std::string_view text, Int most, bool from_right) {
  std::vector<std::string_view> out;
  const auto strip_near = [&] { return from_right ? strip_right(text) : strip_left(text); };
  text = strip_near();
  while (!text.empty()) {
    if (most-- == 0) {
      out.push_back(text);
      break;
    }
    size_t size = 0;
    if (from_right) {
      size_t begin = text.size();
      while (begin > 0) {
        size_t at = begin - 1;
        while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
        size_t next = at;
        if (is_space(next_character(text, next))) break;
        begin = at;
      }
      size = text.size() - begin;
      out.push_back(text.substr(begin));
      text.remove_suffix(size);
    } else {
      while (size < text.size()) {
        size_t next = size;
        if (is_space(next_character(text, next))) break;
        size = next;
      }
      out.push_back(text.substr(0, size));
      text.remove_prefix(size);
    }
    text = strip_near();
  }
  return out;
}

template <bool from_right>
Value split_text(Call& call) {
  std::string_view text = call.self_text().string;
  Int most = most_splits(call, 1);
  std::vector<std::string_view> out;
  if (!is_given_set(call, 0)) {
    out = split_spaces(text, most, from_right);
  } else {
    const std::string_view separator = call.text(0, "");
    if (separator.empty()) throw Failure("empty separator");
    while (most-- > 0) {
      const Place place =
          from_right ? find_last(call.heap, text, separator) : find_text(text, separator);
      if (place == kNowhere) break;
      call.heap.charge(sizeof(std::string_view));
      if (from_right) {
        out.push_back(text.substr(place + separator.size()));
        text = text.substr(0, place);
      } else {
        out.push_back(text.substr(0, place));
        text = text.substr(place + separator.size());
      }
    }
    out.push_back(text);
  }
  if (from_right) std::reverse(out.begin(), out.end());
  return parts_value(call, out);
}

template <bool last>
Value partition(Call& call) {
  const std::string_view text = call.self_text().string;
  const std::string_view separator = call.text(0, "");
  if (separator.empty()) throw Failure("empty separator");
  const Place place = last ? find_last(call.heap, text, separator) : find_text(text, separator);
  std::vector<Value> out;
  if (place == kNowhere) {
    out.assign(3, part_of(call, ""));
    out[last ? 2 : 0] = part_of(call, text);
  } else {
    out = {part_of(call, text.substr(0, place)), part_of(call, separator),
           part_of(call, text.substr(place + separator.size()))};
  }
  return call.heap.list(std::move(out), Kind::kTuple);
}

Value join_values(Call& call) {
  std::vector<Value> parts;
  for (const Value& value : elements(call[0], call.heap)) {
    if (!value.is(Kind::kText)) {
      throw Failure(cat("sequence item ", parts.size(), ": expected str instance, ",
                        type_name(value), " found"));
    }
    parts.push_back(value);
  }
  Value out = joined(call.heap, call.self_text().string, parts);
  out.safe = call.self.safe;
  return out;
}

Value replace_method(Call& call) {
  const Value out = replaced(call.heap, call.self_text().string, call.text(0, ""), call.text(1, ""),
                             call.integer(2, -1));
  return part_of(call, out.string);
}

// ---- padding ----

enum class Side { kLeft, kRight, kBoth };

template <Side side>
Value pad(Call& call) {
  const std::string_view text = call.self_text().string;
  const Int missing = call.count(0, 0) - static_cast<Int>(length(text));
  const std::string_view fill = call.text(1, " ");
  if (length(fill) != 1) throw Failure("the fill character must be exactly one character long");
  if (missing <= 0) return part_of(call, text);
  if (missing > call.heap.bytes_left()) call.heap.charge(INT64_MAX);
  // If the number of fill characters is odd, Python's center() puts one more on the left for an odd
  // width, and one more on the right for an even width.
  const Int left = side == Side::kLeft    ? missing
                   : side == Side::kRight ? 0
                                          : missing / 2 + (missing & call.count(0, 0) & 1);
  call.heap.charge(static_cast<int64_t>(missing) * static_cast<int64_t>(fill.size()));
  std::string out;
  for (Int i = 0; i < left; ++i) out += fill;
  out += text;
  for (Int i = left; i < missing; ++i) out += fill;
  return made_text(call, std::move(out));
}

Value fill_zeros(Call& call) {
  const std::string_view text = call.self_text().string;
  const Int missing = call.count(0, 0) - static_cast<Int>(length(text));
  if (missing <= 0) return part_of(call, text);
  if (missing > call.heap.bytes_left()) call.heap.charge(INT64_MAX);
  const bool has_sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  std::string out(text.substr(0, has_sign ? 1 : 0));
  out.append(static_cast<size_t>(missing), '0');
  out += text.substr(has_sign ? 1 : 0);
  return made_text(call, std::move(out));
}

Value expand_tabs(Call& call) {
  const Int size = call.count(0, 8);
  std::string out;
  Int column = 0;
  for (const char c : call.self_text().string) {
    if (c == '\t') {
      const Int blanks = size > 0 ? size - column % size : 0;
      if (blanks > call.heap.bytes_left()) call.heap.charge(INT64_MAX);
      call.heap.charge(static_cast<int64_t>(blanks));
      out.append(static_cast<size_t>(blanks), ' ');
      column += blanks;
    } else {
      out += c;
      if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) ++column;
      if (c == '\n' || c == '\r') column = 0;
    }
  }
  return made_text(call, std::move(out));
}

// ---- kinds of characters ----

template <bool (*is)(char32_t)>
Value all_are(Call& call) {
  const std::string_view text = call.self_text().string;
  for (size_t at = 0; at < text.size();) {
    if (!is(next_character(text, at))) return truth(false);
  }
  return truth(!text.empty());
}

bool is_letter_or_digit(char32_t c) { return is_letter(c) || is_numeric(c); }

bool is_any_digit(char32_t c) {  // decimal, superscript, subscript and circled digits
  return is_decimal(c) || c == U'\u00B2' || c == U'\u00B3' || c == U'\u00B9' || c == U'\u2070' ||
         (c >= U'\u2074' && c <= U'\u2079') || (c >= U'\u2080' && c <= U'\u2089') ||
         (c >= U'\u2460' && c <= U'\u2468');
}

// Whether the text has characters for which `is` holds, and none for which `is_other` holds.
template <bool (*is)(char32_t), bool (*is_other)(char32_t)>
Value all_in_case(Call& call) {
  const std::string_view text = call.self_text().string;
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (is_other(c)) return truth(false);
    found = found || is(c);
  }
  return truth(found);
}

Value is_title(Call& call) {
  const std::string_view text = call.self_text().string;
  bool inside = false, found = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if ((is_upper(c) && inside) || (is_lower(c) && !inside)) return truth(false);
    inside = is_upper(c) || is_lower(c);
    found = found || inside;
  }
  return truth(found);
}

template <std::string (*change)(std::string_view)>
Value changed(Call& call) {
  return made_text(call, change(call.self_text().string));
}

template <bool at_end>
Value remove_affix(Call& call) {
  const std::string_view text = call.self_text().string;
  const std::string_view affix = call.text(0, "");
  if (at_end ? !ends_with(text, affix) : !starts_with(text, affix)) return part_of(call, text);
  return part_of(call,
                 at_end ? text.substr(0, text.size() - affix.size()) : text.substr(affix.size()));
}

constexpr Builtin kMethods[] = {
    {"strip", "-", 0, strip<true, true>},
    {"lstrip", "-", 0, strip<true, false>},
    {"rstrip", "-", 0, strip<false, true>},
    {"split", "sep maxsplit", 0, split_text<false>},
    {"rsplit", "sep maxsplit", 0, split_text<true>},
    {"splitlines", "keepends", 0,
     [](Call& c) { return parts_value(c, lines_of(c.self_text().string, c.flag(0, false))); }},
    {"startswith", "- - -", 1, has_affix<false>},
    {"endswith", "- - -", 1, has_affix<true>},
    {"upper", "", 0, changed<upper>},
    {"lower", "", 0, changed<lower>},
    {"casefold", "", 0, changed<fold_case>},
    {"title", "", 0, changed<title>},
    {"capitalize", "", 0, changed<capitalize>},
    {"swapcase", "", 0, changed<swap_case>},
    {"replace", "- - -", 2, replace_method},
    {"find", "- - -", 1, find_place<false, false>},
    {"rfind", "- - -", 1, find_place<true, false>},
    {"index", "- - -", 1, find_place<false, true>},
    {"rindex", "- - -", 1, find_place<true, true>},
    {"count", "- - -", 1, count_method},
    {"join", "-", 1, join_values},
    {"format", "*", 0, [](Call& c) { return brace_format(c.in, c.self.string, c.given); }},
    {"center", "- -", 1, pad<Side::kBoth>},
    {"ljust", "- -", 1, pad<Side::kRight>},
    {"rjust", "- -", 1, pad<Side::kLeft>},
    {"zfill", "-", 1, fill_zeros},
    {"expandtabs", "tabsize", 0, expand_tabs},
    {"partition", "-", 1, partition<false>},
    {"rpartition", "-", 1, partition<true>},
    {"removeprefix", "-", 1, remove_affix<false>},
    {"removesuffix", "-", 1, remove_affix<true>},
    {"isalpha", "", 0, all_are<is_letter>},
    {"isdigit", "", 0, all_are<is_any_digit>},
    {"isdecimal", "", 0, all_are<is_decimal>},
    {"isnumeric", "", 0, all_are<is_numeric>},
    {"isalnum", "", 0, all_are<is_letter_or_digit>},
    {"isspace", "", 0, all_are<is_space>},
    {"isupper", "", 0, all_in_case<is_upper, is_lower>},
    {"islower", "", 0, all_in_case<is_lower, is_upper>},
    {"istitle", "", 0, is_title},
};

}  // namespace

std::span<const Builtin> text_methods() { return kMethods; }

size_t find_text(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return kNowhere;
  if (part.empty()) return from;
  const void* const found =
      ::memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found == nullptr ? kNowhere
                          : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

Value replaced(Heap& heap, std::string_view text, std::string_view from, std::string_view to,
               Int count) {
  heap.scan(text.size());
  const auto all = static_cast<Int>(count_of(text, from));
  const Int times = count < 0 ? all : std::min(all, count);
  if (times == 0) return Value::text(text);
  const Int size = static_cast<Int>(text.size()) + times * static_cast<Int>(to.size());
  if (size > heap.bytes_left()) heap.charge(INT64_MAX);
  std::string out;
  out.reserve(static_cast<size_t>(size));
  size_t at = 0;
  for (Int i = 0; i < times; ++i) {
    // An empty `from` occurs between all characters, and at both ends.
    const size_t found = !from.empty() ? find_text(text, from, at)
                         : i == 0      ? 0
                                       : at + byte_offset(text.substr(at), 1);
    out += text.substr(at, found - at);
    out += to;
    at = found + from.size();
  }
  out += text.substr(at);
  return heap.text(std::move(out));
}

Value joined(Heap& heap, std::string_view separator, const std::vector<Value>& parts) {
  size_t size = 0;
  for (const Value& part : parts) size += part.string.size() + separator.size();
  if (static_cast<int64_t>(size) > heap.bytes_left()) heap.charge(INT64_MAX);
  std::string out;
  out.reserve(size);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i].string;
  }
  return heap.text(std::move(out));
}

std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> out;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = next_character(text, at);
    const bool is_break = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                          c == 0x2028 || c == 0x2029;
    if (!is_break) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    out.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) out.push_back(text.substr(begin));
  return out;
}

}  // namespace am::chat
