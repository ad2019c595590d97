#include "am/config/blend.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"

namespace am::config {

namespace {

// Reads Megatron's blend from a .json file: a list, or an object with the list "train". Returns an
// empty list after an error.
std::vector<std::string> read_blend(const Plan& plan, const std::string& path, Diagnostics& found) {
  const std::string file = plan.resolve(path).string();
  std::vector<std::string> blend;
  try {
    Json json = Json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) json = json.value("train", Json());
    if (json.is_array()) {
      for (const Json& each : json)
        blend.push_back(each.is_string() ? each.get<std::string>() : dump_json(each, -1));
      if (blend.empty()) {
        found.error("plan.value", plan.span("data.path"), cat(file, ": the blend is empty"));
      }
      return blend;
    }
    found.error("plan.value", plan.span("data.path"), cat(file, ": this is not a blend"),
                "a blend is a list of weights and prefixes in turn, or an object with such a list "
                "under \"train\"");
  } catch (const Error& error) {
    found.error("plan.value", plan.span("data.path"), error.what());
  }
  return {};
}

std::optional<double> number_of(const std::string& text) {
  double value = 0.0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end.ec == std::errc{} && end.ptr == text.data() + text.size();
  return whole && std::isfinite(value) && value >= 0.0 ? std::optional(value) : std::nullopt;
}

}  // namespace

void settle_blend(Plan& plan, Diagnostics& found) {
  DataSection& data = plan.data;
  if (data.kind != "megatron" || data.path.empty() || !data.sources.empty()) return;
  std::vector<std::string> blend = data.path;
  if (blend.size() == 1 && ends_with(blend.front(), ".json")) {
    blend = read_blend(plan, blend.front(), found);
    if (blend.empty()) return;
  } else if (!number_of(blend.front())) {
    return;
  }
  data.path.clear();
  for (size_t i = 0; i < blend.size(); i += 2) {
    const auto weight = number_of(blend[i]);
    if (!weight || i + 1 == blend.size()) {
      found.error("plan.value", plan.span("data.path"),
                  cat("data.path: \"", blend[i], "\" in a blend is ",
                      weight ? "a weight without a prefix after it" : "not a weight"),
                  "a blend is a list of weights and prefixes in turn: [\"0.7\", \"a\", \"0.3\", "
                  "\"b\"]");
      return;
    }
    data.sources.push_back({.path = {blend[i + 1]}, .weight = *weight});
  }
}

}  // namespace am::config
