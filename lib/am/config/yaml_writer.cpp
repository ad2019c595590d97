#include "am/config/yaml_writer.h"

#include <string_view>
#include <vector>

#include "am/base/text.h"
#include "am/config/write.h"
#include "am/config/yaml_reader.h"

namespace am::config {
namespace {

// Whether read_yaml() and YAML 1.1 readers read this text as the same text if it is written without
// quotes.
bool is_plain(const std::string& text) {
  constexpr std::string_view kSafe =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-";
  if (text.empty() || text.find_first_not_of(kSafe) != std::string::npos) return false;
  if (std::string_view("-.0123456789").find(text.front()) != std::string_view::npos) return false;
  if (text.size() == 1 && std::string_view("yYnN").find(text.front()) != std::string_view::npos) {
    return false;
  }
  const auto value = plain_value(text, {});
  return value.has_value() && value->kind == Value::Kind::kText;
}

// Returns a number as YAML. If the number has an exponent, the text contains a decimal point too,
// because YAML 1.1 reads "1e-05" as a text.
std::string number_text(const Json& value) {
  std::string text = dump_json(value, -1);
  const size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos) {
    text.insert(exponent, ".0");
  }
  return text;
}

std::string inline_text(const Json& value) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    return is_plain(text) ? text : toml_text(text);
  }
  if (value.is_number_float()) return number_text(value);
  if (value.is_array()) {
    std::vector<std::string> items;
    for (const Json& item : value) items.push_back(inline_text(item));
    return cat("[", join(items, ", "), "]");
  }
  return dump_json(value, -1);  // integers, booleans, null
}

void write(const Json& object, const std::string& indent, std::string& out) {
  for (const auto& [key, value] : object.items()) {
    const std::string name = is_plain(key) ? key : toml_text(key);
    if (value.is_object() && !value.empty()) {
      out += cat(indent, name, ":\n");
      write(value, indent + "  ", out);
    } else if (value.is_object()) {
      out += cat(indent, name, ": {}\n");
    } else if (value.is_array() && !value.empty() && value.front().is_array()) {
      out += cat(indent, name, ":\n");
      for (const Json& item : value) out += cat(indent, "  - ", inline_text(item), "\n");
    } else {
      out += cat(indent, name, ": ", inline_text(value), "\n");
    }
  }
}

}  // namespace

std::string write_yaml(const Json& object) {
  std::string out;
  write(object, "", out);
  return out;
}

}  // namespace am::config
