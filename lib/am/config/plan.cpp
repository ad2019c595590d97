#include "am/config/plan.h"

namespace am::config {

Span Plan::span(std::string_view key) const {
  while (true) {
    if (const auto at = spans.find(key); at != spans.end()) return at->second;
    const size_t dot = key.rfind('.');
    if (dot == std::string_view::npos) break;
    key = key.substr(0, dot);
  }
  Span span;
  span.file = file;
  return span;
}

bool Plan::given(std::string_view key) const { return spans.find(key) != spans.end(); }

std::filesystem::path Plan::resolve(const std::string& path) const {
  return (std::filesystem::path(file).parent_path() / path).lexically_normal();
}

}  // namespace am::config
