#include "messages.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "am/base/json_integer.h"
#include "findings.h"

namespace am_plan::lsp {
namespace {

// Returns the protocol's number for a severity (DiagnosticSeverity).
int severity_number(am::Severity severity) {
  switch (severity) {
    case am::Severity::kError:
      return 1;
    case am::Severity::kWarning:
      return 2;
    case am::Severity::kNote:
      return 3;
  }
  return 1;
}

// Returns the protocol's number for a kind of completion (CompletionItemKind).
int kind_number(Completion::Kind kind) {
  switch (kind) {
    case Completion::Kind::kSection:
      return 9;  // Module
    case Completion::Kind::kKey:
      return 10;  // Property
    case Completion::Kind::kValue:
      return 12;  // Value
  }
  return 12;
}

// Returns the number of a line or character as an int. Clamps a negative or too large number to the
// range from 0 to INT_MAX.
int coordinate(const am::Json& number) {
  constexpr int64_t kLargest = std::numeric_limits<int>::max();
  return static_cast<int>(std::clamp<int64_t>(am::integer_of(number), 0, kLargest));
}

am::Json to_json(Position position) {
  return {{"line", position.line}, {"character", position.character}};
}

am::Json to_json(const Range& range) {
  return {{"start", to_json(range.begin)}, {"end", to_json(range.end)}};
}

am::Json to_json(const TextEdit& edit) {
  return {{"range", to_json(edit.range)}, {"newText", edit.text}};
}

am::Json markdown(const std::string& text) { return {{"kind", "markdown"}, {"value", text}}; }

}  // namespace

Position read_position(const am::Json& json) {
  return {coordinate(json.at("line")), coordinate(json.at("character"))};
}

am::Json to_json(const Hover& hover) {
  return {{"contents", markdown(hover.markdown)}, {"range", to_json(hover.range)}};
}

am::Json to_json(const Completion& completion) {
  am::Json json = {{"label", completion.label}, {"kind", kind_number(completion.kind)}};
  if (!completion.detail.empty()) json["detail"] = completion.detail;
  if (!completion.documentation.empty()) {
    json["documentation"] = markdown(completion.documentation);
  }
  json["textEdit"] = to_json(completion.edit);
  return json;
}

am::Json to_json(const Document& document, const am::Diagnostic& finding) {
  return {{"range", to_json(range_of(document, finding))},
          {"severity", severity_number(finding.severity)},
          {"code", finding.rule},
          {"source", "am-plan"},
          {"message", message_of(document, finding)}};
}

am::Json to_json(const Document& document, const Fix& fix) {
  am::Json mended = am::Json::array();
  for (const am::Diagnostic& finding : fix.mends) mended.push_back(to_json(document, finding));
  am::Json changes = am::Json::object();
  changes[document.uri()] = am::Json::array({to_json(fix.edit)});
  return {{"title", fix.title},
          {"kind", "quickfix"},
          {"diagnostics", std::move(mended)},
          {"edit", {{"changes", std::move(changes)}}}};
}

am::Json published(const Document& document, const am::Diagnostics& found) {
  am::Json list = am::Json::array();
  for (const am::Diagnostic& item : found.items()) list.push_back(to_json(document, item));
  return {{"uri", document.uri()}, {"diagnostics", std::move(list)}};
}

am::Json capabilities() {
  constexpr int kFullText = 1;  // each change of a document sends the document's whole text
  return {{"capabilities",
           {{"positionEncoding", "utf-16"},
            {"textDocumentSync", {{"openClose", true}, {"change", kFullText}, {"save", true}}},
            {"hoverProvider", true},
            {"completionProvider", {{"triggerCharacters", am::Json::array({"[", "=", "\""})}}},
            {"codeActionProvider", {{"codeActionKinds", am::Json::array({"quickfix"})}}}}},
          {"serverInfo", {{"name", "am-plan"}, {"version", AM_VERSION}}}};
}

}  // namespace am_plan::lsp
