#include "am/term/finding_formats.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <utility>

#include "am/base/text.h"
#include "am/term/printable.h"

namespace am::term {
namespace {

// Returns the message and, on a second line, the help if there is any.
std::string full_message(const Diagnostic& item) {
  const std::string message = printable(item.message);
  return item.help.empty() ? message : cat(message, "\nhelp: ", printable(item.help));
}

std::string gcc_line(const Span& span, std::string_view severity, std::string_view message) {
  std::string place = echo(span.file.empty() ? "am-plan" : span.file);
  if (span.line > 0) place += cat(":", span.line, ":", span.column);
  return cat(place, ": ", severity, ": ", printable(message));
}

// Escapes a text for a workflow command of GitHub Actions: '%' and line breaks, and in a property
// also ':' and ','.
std::string escaped(std::string_view text, bool property) {
  std::string out;
  for (const char c : text) {
    if (c == '%') {
      out += "%25";
    } else if (c == '\r') {
      out += "%0D";
    } else if (c == '\n') {
      out += "%0A";
    } else if (property && c == ':') {
      out += "%3A";
    } else if (property && c == ',') {
      out += "%2C";
    } else {
      out += c;
    }
  }
  return out;
}

// Returns a path as a URI reference. Percent-encodes all bytes but unreserved ones and slashes.
std::string uri_of(std::string_view path) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  constexpr std::string_view kPlain = "-._~/";
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && (std::isalnum(byte) != 0 || kPlain.find(c) != std::string_view::npos)) {
      out += c;
    } else {
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

Json region(const Span& span) {
  return {{"startLine", span.line},
          {"startColumn", std::max(1, span.column)},
          {"endColumn", std::max(1, span.column) + std::max(1, span.length)}};
}

Json sarif_result(const Diagnostic& item, size_t rule) {
  Json result = {{"ruleId", item.rule},
                 {"ruleIndex", rule},
                 {"level", to_string(item.severity)},
                 {"message", {{"text", full_message(item)}}}};
  if (item.span.file.empty()) return result;
  Json place = {{"artifactLocation", {{"uri", uri_of(item.span.file)}}}};
  if (item.span.line > 0) place["region"] = region(item.span);
  result["locations"] = Json::array({{{"physicalLocation", std::move(place)}}});
  return result;
}

}  // namespace

std::string gcc_text(const Diagnostics& found) {
  std::string out;
  for (const Diagnostic& item : found.items()) {
    out += cat(gcc_line(item.span, to_string(item.severity), item.message), " [", item.rule, "]\n");
    if (!item.help.empty()) out += cat(gcc_line(item.span, "note", item.help), "\n");
  }
  return out;
}

std::string github_text(const Diagnostics& found) {
  std::string out;
  for (const Diagnostic& item : found.items()) {
    const bool is_note = item.severity == Severity::kNote;
    std::vector<std::string> properties;
    const auto add = [&](const char* name, const std::string& value) {
      properties.push_back(cat(name, "=", escaped(value, true)));
    };
    if (!item.span.file.empty()) add("file", item.span.file);
    if (item.span.line > 0) {
      add("line", std::to_string(item.span.line));
      add("col", std::to_string(item.span.column));
      add("endColumn", std::to_string(item.span.column + std::max(1, item.span.length)));
    }
    add("title", item.rule);
    out += cat("::", is_note ? "notice" : to_string(item.severity), " ", join(properties, ","),
               "::", escaped(full_message(item), false), "\n");
  }
  return out;
}

Json sarif(std::span<const Diagnostics> found, std::span<const FindingRule> rules,
           std::string_view version) {
  std::map<std::string, size_t> indices;  // rule id -> index in `described`
  Json described = Json::array();
  const auto index_of = [&](const std::string& id) {
    const auto [known, is_new] = indices.try_emplace(id, indices.size());
    if (!is_new) return known->second;
    Json rule = {{"id", id}};
    for (const FindingRule& each : rules) {
      if (each.id != id) continue;
      rule["shortDescription"] = {{"text", each.summary}};
      rule["fullDescription"] = {{"text", each.explain}};
    }
    described.push_back(std::move(rule));
    return known->second;
  };
  Json results = Json::array();
  for (const Diagnostics& each : found) {
    for (const Diagnostic& item : each.items()) {
      results.push_back(sarif_result(item, index_of(item.rule)));
    }
  }
  Json driver = {{"name", "am-plan"}, {"version", version}, {"rules", std::move(described)}};
  Json run = {{"tool", {{"driver", std::move(driver)}}},
              {"columnKind", "unicodeCodePoints"},
              {"results", std::move(results)}};
  return {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
          {"version", "2.1.0"},
          {"runs", Json::array({std::move(run)})}};
}

}  // namespace am::term
