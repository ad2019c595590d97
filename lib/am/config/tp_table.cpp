#include "am/config/tp_table.h"

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/config/strategy_codec.h"
#include "am/config/value.h"

namespace am::config {

std::vector<std::pair<std::string, std::string>> load_tp_table(const std::filesystem::path& path,
                                                               const Span& where,
                                                               Diagnostics& found) {
  std::string text;
  try {
    text = read_file(path);
  } catch (const Error& error) {
    found.error("plan.value", where, error.what(), "paths are relative to the plan file");
    return {};
  }
  const auto root = read_toml(text, path.string(), found);
  if (!root) return {};
  const Member* section = root->find("tp_plan");
  if (section != nullptr && !section->value.is_table()) {
    const Input input{section->value, "tp_plan", found};
    input.wrong_type("a table", "\"module.pattern\" = \"style\"");
    return {};
  }
  const Input input{section != nullptr ? section->value : *root, "tp_plan", found};
  auto table = read_text_table(input);
  if (!table) return {};
  if (table->empty()) {
    found.error("plan.value", where, cat(path.string(), ": no pattern = style in it"),
                "write a table [tp_plan] of \"module.pattern\" = \"style\"");
  }
  return std::move(*table);
}

}  // namespace am::config
