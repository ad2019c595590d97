#include <algorithm>
#include <array>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/config/write.h"
#include "am/frameworks/exchange.h"
#include "am/frameworks/frameworks.h"
#include "am/frameworks/losses.h"
#include "am/job/plan_difference.h"

namespace am::frameworks {
namespace {

const std::array<Framework, 5>& all() {
  static const std::array<Framework, 5> kFrameworks = {kTorchtitan, kMegatron, kNemoAutomodel,
                                                       kAccelerate, kDeepspeed};
  return kFrameworks;
}

bool covers(std::string_view pattern, std::string_view key) {
  return pattern == key || (ends_with(pattern, ".") && starts_with(key, pattern));
}

// Returns the reason why a plan key cannot be exported: the framework's own reason for this key if
// there is one, otherwise a reason that applies to all frameworks.
std::string reason_for(const Framework& framework, std::string_view key) {
  static constexpr std::array<Reason, 7> kGeneral = {{
      {"validation.", "configure validation in the framework itself"},
      {"experts.", "configure the balancing of experts in the framework itself"},
      {"lora.", "configure adapters in the framework itself"},
      {"data.", "configure the data in the framework itself"},
      {"cluster.", "only am-plan's predictions use it"},
      {"metrics.", "the framework has its own metrics"},
      {"mesh.ranks_per_node", "the launcher decides the number of ranks per node"},
  }};
  for (const Reason& reason : framework.reasons) {
    if (covers(reason.key, key)) return std::string(reason.why);
  }
  for (const Reason& reason : kGeneral) {
    if (covers(reason.key, key)) return std::string(reason.why);
  }
  return cat(framework.title, " has no setting for it");
}

bool is_listed(const std::vector<Lost>& lost, const std::string& key) {
  return std::any_of(lost.begin(), lost.end(), [&](const Lost& one) { return one.key == key; });
}

bool is_utf8(std::string_view text) {
  try {
    const std::string dumped = Json(text).dump(-1, ' ', false, Json::error_handler_t::strict);
    return !dumped.empty();
  } catch (const Json::type_error&) {
    return false;
  }
}

bool is_readable(std::string_view text, const std::string& file, Diagnostics& found) {
  constexpr size_t kLargest = size_t{1} << 18;
  const Span whole{file, 0, 0, 1, {}};
  if (text.size() > kLargest) {
    found.error("exchange.syntax", whole, cat("the file has ", text.size(), " bytes"),
                cat("import a configuration of at most ", kLargest, " bytes"));
    return false;
  }
  if (text.find('\0') == std::string_view::npos && is_utf8(text)) return true;
  found.error("exchange.syntax", whole, "the file is not UTF-8 text");
  return false;
}

// Whether the text is a Python program: one of its lines is an import or a definition. A shell
// script, which begins with "#!" and the path of a shell, does not count.
bool is_python(std::string_view text) {
  const std::string_view first = text.substr(0, text.find('\n'));
  if (starts_with(first, "#!") && ends_with(trim(first), "sh")) return false;
  for (const std::string& line : split(std::string(text), '\n')) {
    const bool imports = starts_with(line, "from ") && line.find(" import ") != std::string::npos;
    const bool defines = starts_with(line, "def ") || starts_with(line, "class ");
    if (imports || starts_with(line, "import ") || (defines && ends_with(trim(line), ":"))) {
      return true;
    }
  }
  return false;
}

// Moves settings that change the job from `imported.ignored` to `imported.lost`.
void split_losses(Imported& imported) {
  std::vector<Ignored> harmless;
  for (Ignored& item : imported.ignored) {
    const auto what = what_is_lost(item.key, Json::parse(item.value));
    if (what.has_value()) item.why = *what;
    (what.has_value() ? imported.lost : harmless).push_back(std::move(item));
  }
  imported.ignored = std::move(harmless);
}

void report_losses(const Imported& imported, bool force, Diagnostics& found) {
  for (const Ignored& item : imported.lost) {
    found.add(
        {"exchange.lost", force ? Severity::kWarning : Severity::kError, item.span,
         cat(item.key, " = ", item.value, " cannot be expressed in a plan, but affects ", item.why),
         force ? "" : "--force imports the plan without this setting"});
  }
}

}  // namespace

std::string Imported::toml() const { return config::to_toml(plan, keys); }

std::span<const Framework> all_frameworks() { return all(); }

const Framework* find_framework(std::string_view name) {
  const auto found = std::find_if(all().begin(), all().end(),
                                  [&](const Framework& one) { return one.name == name; });
  return found == all().end() ? nullptr : &*found;
}

Exported export_plan(const Framework& framework, const ExportInput& input) {
  Exported out = framework.write(input);
  Diagnostics found;
  const auto back = import_plan(framework, out.text, "export", found, false, &input.model);
  AM_ASSERT(back.has_value(), cat("the export to ", framework.name, " does not read back",
                                  found.empty() ? "" : ": " + found.items().front().message));
  config::Plan returned = back->plan;
  returned.model.path = input.plan.model.path;
  for (const job::PlanDifference& item :
       job::differences(job::canonical(input.plan, input.model),
                        job::canonical(std::move(returned), input.model))) {
    if (is_listed(out.lost, item.key)) continue;
    out.lost.push_back({item.key, dump_json(item.a, -1), reason_for(framework, item.key)});
  }
  return out;
}

std::optional<Imported> import_plan(const Framework& framework, std::string_view text,
                                    const std::string& file, Diagnostics& found, bool force,
                                    const model::ModelConfig* model) {
  const int before = found.errors();
  if (!is_readable(text, file, found)) return std::nullopt;
  if (is_python(text)) {
    found.error("exchange.framework", Span{file, 0, 0, 1, {}},
                "this is a Python program, which is not run",
                "import the settings that it produces instead: the command's arguments, or the "
                "configuration that the framework prints or saves when the job starts");
    return std::nullopt;
  }
  auto imported = framework.read({text, file, model, found});
  if (imported) split_losses(*imported);
  if (imported) report_losses(*imported, force, found);
  if (found.errors() > before) return std::nullopt;
  return imported;
}

}  // namespace am::frameworks
