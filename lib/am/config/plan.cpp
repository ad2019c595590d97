#include "am/config/plan.h"

#include <algorithm>

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

bool DataSection::has_kind(std::string_view wanted) const {
  if (sources.empty()) return kind == wanted;
  return std::any_of(sources.begin(), sources.end(),
                     [&](const DataSourceSection& source) { return kind_of(source) == wanted; });
}

bool Plan::max_steps_apply() const {
  const bool all_end =
      !data.sources.empty() &&
      std::all_of(data.sources.begin(), data.sources.end(),
                  [](const DataSourceSection& source) { return source.epochs > 0; });
  return given("train.max_steps") || (train.epochs == 0 && train.max_tokens == 0 && !all_end);
}

std::filesystem::path Plan::resolve(const std::string& path) const {
  return (std::filesystem::path(file).parent_path() / path).lexically_normal();
}

}  // namespace am::config
