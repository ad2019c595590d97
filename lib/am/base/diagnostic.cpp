#include "am/base/diagnostic.h"

#include <algorithm>
#include <tuple>

namespace am {

const char* to_string(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "note";
  }
  return "error";
}

void Diagnostics::error(std::string rule, Span span, std::string message, std::string help) {
  add({std::move(rule), Severity::kError, std::move(span), std::move(message), std::move(help)});
}

void Diagnostics::warning(std::string rule, Span span, std::string message, std::string help) {
  add({std::move(rule), Severity::kWarning, std::move(span), std::move(message), std::move(help)});
}

void Diagnostics::append(const Diagnostics& other) {
  items_.insert(items_.end(), other.items_.begin(), other.items_.end());
}

int Diagnostics::count(Severity severity) const {
  return static_cast<int>(std::count_if(items_.begin(), items_.end(),
                                        [&](const auto& d) { return d.severity == severity; }));
}

void Diagnostics::sort() {
  std::stable_sort(items_.begin(), items_.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::tie(a.span.file, a.span.line, a.span.column) <
           std::tie(b.span.file, b.span.line, b.span.column);
  });
}

}  // namespace am
