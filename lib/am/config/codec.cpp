#include "am/config/codec.h"

#include <charconv>
#include <cmath>
#include <set>

#include "am/base/text.h"
#include "am/base/units.h"

namespace am::config {
namespace {

// Formats a number with up to twelve significant digits: 0.1 as "0.1", not as
// "0.10000000000000001".
std::string number_text(double value) { return format_general(value, 12); }

// Returns advice for a value that would be legal in another notation, for example "write 8 without
// quotes"; otherwise an empty text. `wanted`: description of the wanted kind, as in wrong_type().
std::string other_notation(const Value& value, std::string_view wanted) {
  const bool wants_text = starts_with(wanted, "text");
  const auto wants = [&](std::string_view type) { return wanted.find(type) != wanted.npos; };
  switch (value.kind) {
    case Value::Kind::kText: {
      const std::string& text = value.text;
      const bool boolean = text == "true" || text == "false";
      const bool number = !text.empty() && text.find_first_not_of("0123456789.-+e_") == text.npos;
      const bool fits = (boolean && (wants("boolean") || wants("true or false"))) ||
                        (number && (wants("number") || wants("integer")));
      return fits ? cat("write ", text, " without quotes") : "";
    }
    case Value::Kind::kInteger:
      return wants_text ? cat("write \"", value.integer, "\"") : "";
    case Value::Kind::kNumber:
      if (wants_text) return cat("write \"", number_text(value.number), "\"");
      return wants("integer") && value.number == std::floor(value.number) &&
                     std::abs(value.number) < 1e15
                 ? cat("write ", format_fixed(value.number, 0))
                 : "";
    default:
      return "";
  }
}

}  // namespace

// ---- diagnostics --------------------------------------------------------------------------------

void Input::wrong_type(std::string_view wanted, const std::string& legal) const {
  std::string help = other_notation(value, wanted);
  if (help.empty()) help = cat("legal: ", legal);
  found.error("plan.type", value.span, cat(key, " is ", kind_name(value.kind), ", not ", wanted),
              help);
}

void Input::out_of_range(const std::string& message, const std::string& help) const {
  found.error("plan.range", value.span, cat(key, message), help);
}

void Input::bad_value(const std::string& message, const std::string& help) const {
  found.error("plan.value", value.span, cat(key, message), help);
}

Input Input::part(const Value& inner, std::string_view name) const {
  return {inner, cat(key, ".", name), found};
}

// ---- numbers ------------------------------------------------------------------------------------

std::optional<int64_t> Integer::read(const Input& input) const {
  if (input.value.kind != Value::Kind::kInteger) {
    input.wrong_type("an integer", cat(min, " to ", max));
    return std::nullopt;
  }
  const int64_t value = input.value.integer;
  if (value < min || value > max) {
    input.out_of_range(cat(" = ", value, " is out of range"), cat("legal: ", min, " to ", max));
    return std::nullopt;
  }
  return value;
}

Json Integer::schema() const { return {{"type", "integer"}, {"minimum", min}, {"maximum", max}}; }

std::string Integer::type() const { return cat("integer >= ", min); }

std::optional<double> Number::read(const Input& input) const {
  double value = input.value.number;
  if (input.value.kind == Value::Kind::kInteger) {
    value = static_cast<double>(input.value.integer);
  } else if (input.value.kind != Value::Kind::kNumber) {
    input.wrong_type("a number", type());
    return std::nullopt;
  }
  if (!std::isfinite(value) || value < min || value >= below || value > most) {
    const char* problem = std::isfinite(value) ? " is out of range" : " is not a finite number";
    input.out_of_range(cat(" = ", number_text(value), problem), cat("legal: ", type()));
    return std::nullopt;
  }
  return value;
}

Json Number::schema() const {
  Json schema = {{"type", "number"}, {"minimum", min}};
  if (std::isfinite(below)) schema["exclusiveMaximum"] = below;
  if (std::isfinite(most)) schema["maximum"] = most;
  return schema;
}

std::string Number::type() const {
  if (std::isfinite(most)) return cat("number from ", number_text(min), " to ", number_text(most));
  const std::string least = cat("number >= ", number_text(min));
  return std::isfinite(below) ? cat(least, " and < ", number_text(below)) : least;
}

std::optional<bool> Boolean::read(const Input& input) const {
  if (input.value.kind == Value::Kind::kBoolean) return input.value.boolean;
  input.wrong_type("true or false", type());
  return std::nullopt;
}

// ---- text ---------------------------------------------------------------------------------------

std::optional<std::string> Text::read(const Input& input) const {
  if (input.value.kind != Value::Kind::kText) {
    input.wrong_type("text in quotes", what);
    return std::nullopt;
  }
  if (empty == Empty::kRefused && trim(input.value.text).empty()) {
    input.bad_value(" is empty", cat("legal: ", what));
    return std::nullopt;
  }
  return input.value.text;
}

Json Text::schema() const {
  Json schema = {{"type", "string"}};
  if (empty == Empty::kRefused) schema["minLength"] = 1;
  return schema;
}

namespace {

struct TimeUnit {
  char letter;
  double seconds;
};
constexpr std::array<TimeUnit, 4> kTimeUnits = {{{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}};

// Returns the seconds of a text such as "1d12h" or "1.5h"; nothing if the text has another form.
// Each unit must be smaller than the unit before it.
std::optional<double> seconds_of(std::string_view text) {
  double seconds = 0.0;
  auto unit = kTimeUnits.begin();
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    double count = 0.0;
    const auto end =
        std::from_chars(text.data(), text.data() + text.size(), count, std::chars_format::fixed);
    if (end.ec != std::errc{} || !std::isfinite(count) || count < 0.0) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end.ptr - text.data()));
    while (unit != kTimeUnits.end() && (text.empty() || unit->letter != text.front())) ++unit;
    if (unit == kTimeUnits.end()) return std::nullopt;
    seconds += count * unit->seconds;
    text.remove_prefix(1);
    ++unit;
  }
  return seconds;
}

}  // namespace

std::optional<double> Duration::read(const Input& input) const {
  if (input.value.kind != Value::Kind::kText) {
    input.wrong_type("a time in quotes", type());
    return std::nullopt;
  }
  constexpr double kLongest = 1e9;
  auto seconds = seconds_of(input.value.text);
  if (seconds) *seconds = std::round(*seconds * 1e3) / 1e3;
  if (seconds && *seconds > 0.0 && *seconds < kLongest) return seconds;
  input.bad_value(cat(" = \"", input.value.text, "\" is not a legal time"),
                  "legal: numbers with the units d, h, m and s in this order, for example "
                  "\"23h30m\", above 0 and below 10^9 s in all");
  return std::nullopt;
}

Json Duration::write(double seconds) const {
  std::string text;
  for (const TimeUnit& unit : kTimeUnits) {
    const bool last = unit.letter == 's';
    if (last) seconds = std::round(seconds * 1e3) / 1e3;
    const double count = last ? seconds : std::floor(seconds / unit.seconds);
    if (count > 0.0) text += cat(number_text(count), unit.letter);
    seconds -= count * unit.seconds;
  }
  return text;
}

Json Duration::schema() const {
  constexpr const char* kNumber = "[0-9]+(\\.[0-9]+)?";
  std::string pattern = "^(?=.)";
  for (const TimeUnit& unit : kTimeUnits) pattern += cat("(", kNumber, unit.letter, ")?");
  return {{"type", "string"}, {"pattern", pattern + "$"}};
}

std::optional<std::variant<int64_t, std::string>> TokenCodec::read(const Input& input) const {
  if (input.value.kind == Value::Kind::kText) {
    return Text{Text::Empty::kRefused, type()}.read(input);
  }
  if (input.value.kind == Value::Kind::kInteger) return Integer{}.read(input);
  input.wrong_type("an id or a token in quotes", type());
  return std::nullopt;
}

Json TokenCodec::write(const std::variant<int64_t, std::string>& value) const {
  return std::visit([](const auto& each) { return Json(each); }, value);
}

Json TokenCodec::schema() const {
  return {{"anyOf", {Integer{}.schema(), Text{Text::Empty::kRefused, type()}.schema()}}};
}

std::string quoted_list(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
    out += cat('"', names[i], '"');
  }
  return out;
}

std::optional<std::string> Choice::read(const Input& input) const {
  const std::string legal = cat("legal: ", type());
  if (input.value.kind != Value::Kind::kText) {
    input.found.error("plan.type", input.value.span,
                      cat(input.key, " is ", kind_name(input.value.kind), ", not text in quotes"),
                      legal);
    return std::nullopt;
  }
  const std::string& text = input.value.text;
  for (const std::string& name : names) {
    if (name == text) return name;
  }
  if (const auto other = also.find(text); other != also.end()) return other->second;
  if (!file_ending.empty() && ends_with(text, file_ending)) return text;
  const auto near = nearest(text, names);
  input.bad_value(cat(" = \"", text, "\" is not known"),
                  near ? cat("did you mean \"", *near, "\"? ", legal) : legal);
  return std::nullopt;
}

Json Choice::schema() const {
  Json one_of = {{"enum", names}};
  if (file_ending.empty()) return one_of;
  const Json file = {{"type", "string"}, {"pattern", cat("\\", file_ending, "$")}};
  return {{"anyOf", {one_of, file}}};
}

std::string Choice::type() const {
  const std::string or_file = file_ending.empty() ? "" : cat(" or a ", file_ending, " file");
  return quoted_list(names) + or_file;
}

Choice dtype_choice() {
  Choice choice{{"float32", "bfloat16", "float16"},
                {{"fp32", "float32"},
                 {"float", "float32"},
                 {"bf16", "bfloat16"},
                 {"fp16", "float16"},
                 {"half", "float16"}}};
  for (const std::string& name : choice.names) choice.also[cat("torch.", name)] = name;
  return choice;
}

// ---- arrays -------------------------------------------------------------------------------------

namespace {

// Reads all items of an array with `codec`. Returns nothing if the value is not an array, or if
// `codec` rejects an item. `wanted` and `legal`: as in wrong_type().
template <typename T, typename Codec>
std::optional<std::vector<T>> read_items(const Input& input, const Codec& codec,
                                         std::string_view wanted, const std::string& legal) {
  if (input.value.kind != Value::Kind::kArray) {
    input.wrong_type(wanted, legal);
    return std::nullopt;
  }
  std::vector<T> items;
  bool good = true;
  for (size_t i = 0; i < input.value.items.size(); ++i) {
    const auto item = codec.read(input.part(input.value.items[i], std::to_string(i)));
    good = good && item;
    if (item) items.push_back(*item);
  }
  return good ? std::optional(std::move(items)) : std::nullopt;
}

}  // namespace

void Input::check_glob(std::string_view pattern) const {
  if (const std::string problem = glob_problem(pattern); !problem.empty()) {
    bad_value(cat(" ", problem), "write several shorter patterns instead");
  }
}

namespace {

// Codec of a text that must be a valid glob.
struct Pattern : Text {
  std::optional<std::string> read(const Input& input) const {
    auto text = Text::read(input);
    if (text) input.check_glob(*text);
    return text;
  }
};

}  // namespace

std::optional<std::vector<std::string>> Texts::read(const Input& input) const {
  const Pattern item{{Text::Empty::kRefused, what}};
  if (input.value.kind == Value::Kind::kText) {
    auto text = item.read(input);
    return text ? std::optional(std::vector{std::move(*text)}) : std::nullopt;
  }
  return read_items<std::string>(input, item, "text in quotes or an array of texts in quotes",
                                 what);
}

Json Texts::schema() const {
  const Json text = Text{}.schema();
  return {{"anyOf", {text, {{"type", "array"}, {"items", text}}}}};
}

std::optional<std::vector<std::string>> Choices::read(const Input& input) const {
  auto names = read_items<std::string>(input, item, "an array", type());
  if (!names) return std::nullopt;
  std::set<std::string_view> seen;
  for (const std::string& name : *names) {
    if (seen.insert(name).second) continue;
    input.bad_value(cat(" has \"", name, "\" twice"), cat("legal: ", type()));
    return std::nullopt;
  }
  return names;
}

Json Choices::schema() const {
  return {{"type", "array"}, {"items", item.schema()}, {"uniqueItems", true}};
}

std::optional<std::vector<int64_t>> Integers::read(const Input& input) const {
  return read_items<int64_t>(input, item, "an array", type());
}

std::optional<std::array<double, 2>> NumberPair::read(const Input& input) const {
  const auto items = read_items<double>(input, item, "an array", type());
  if (!items) return std::nullopt;
  if (items->size() != 2) {
    input.bad_value(cat(" has ", items->size(), " items"), "legal: an array of two numbers");
    return std::nullopt;
  }
  return std::array<double, 2>{(*items)[0], (*items)[1]};
}

Json NumberPair::schema() const {
  return {{"type", "array"}, {"items", item.schema()}, {"minItems", 2}, {"maxItems", 2}};
}

}  // namespace am::config
