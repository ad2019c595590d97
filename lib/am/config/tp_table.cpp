#include "am/config/tp_table.h"

#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/config/codec.h"
#include "am/config/value.h"

namespace am::config {
namespace {

// Appends the entries of a table to `out`. TOML reads `model.norm = "x"` as a table in a table;
// this function joins the keys to the pattern "model.norm".
void flatten(const Input& input, const std::string& prefix, std::vector<TpTableEntry>& out) {
  for (const Member& member : input.value.members) {
    const Input part = input.part(member.value, member.key);
    if (member.value.is_table()) {
      flatten(part, cat(prefix, member.key, "."), out);
    } else if (auto style = Text{}.read(part)) {
      part.check_glob(prefix + member.key);
      out.push_back({prefix + member.key, std::move(*style), member.value.span});
    }
  }
}

}  // namespace

std::vector<TpTableEntry> parse_tp_table(std::string_view text, const std::string& source,
                                         const Span& where, Diagnostics& found) {
  const int before = found.errors();
  const auto root = read_toml(text, source, found);
  if (!root) return {};
  const Member* section = root->find("tp_plan");
  const Input input{section != nullptr ? section->value : *root, "tp_plan", found};
  if (!input.value.is_table()) {
    input.wrong_type("a table", "\"module.pattern\" = \"style\"");
    return {};
  }
  std::vector<TpTableEntry> entries;
  flatten(input, "", entries);
  if (found.errors() > before) return {};
  if (entries.empty()) {
    found.error("tp.plan", where, cat(source, ": the file has no table of pattern = style"),
                "write a table [tp_plan] of \"module.pattern\" = \"style\"");
  }
  return entries;
}

std::vector<TpTableEntry> load_tp_table(const std::filesystem::path& path, const Span& where,
                                        Diagnostics& found) {
  try {
    return parse_tp_table(read_file(path), path.string(), where, found);
  } catch (const Error& error) {
    found.error("tp.plan", where, error.what(), "paths are relative to the plan file");
    return {};
  }
}

}  // namespace am::config
