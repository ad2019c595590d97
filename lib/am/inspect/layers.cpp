#include "am/inspect/layers.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "am/base/number.h"
#include "am/base/text.h"

namespace am::inspect {

std::string layer_of(std::string_view name) {
  for (size_t first = 0; first < name.size();) {
    const size_t dot = std::min(name.find('.', first), name.size());
    const std::string_view segment = name.substr(first, dot - first);
    const bool is_last = dot == name.size();
    if (!is_last && !segment.empty() &&
        segment.find_first_not_of("0123456789") == std::string_view::npos) {
      return std::string(name.substr(0, dot));
    }
    first = dot + 1;
  }
  return std::string(name.substr(0, name.rfind('.')));
}

namespace {

// Returns ascending numbers as one range, for example "0-31", or as several ranges in braces, for
// example "{0-3,7}".
std::string ranges_text(const std::vector<int64_t>& numbers) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    ranges.push_back(cat(numbers[i], end - i > 1 ? cat("-", numbers[end - 1]) : ""));
    i = end;
  }
  return ranges.size() == 1 ? ranges.front() : cat("{", join(ranges, ","), "}");
}

// Returns a numeric component of a dotted name. `index` counts the numeric components from 0. A
// component is numeric if it is a number, or ranges such as "0-31" that an earlier fold_at() has
// put in place of a number. The last component of the name never counts. Returns nullopt if the
// name has no numeric component with this index.
std::optional<std::string_view> number_at(std::string_view name, size_t index) {
  for (size_t first = 0;;) {
    const size_t dot = name.find('.', first);
    if (dot == std::string_view::npos) return std::nullopt;
    const std::string_view segment = name.substr(first, dot - first);
    const bool is_number =
        !segment.empty() && segment.find_first_not_of("0123456789-,{}") == std::string_view::npos;
    if (is_number && index-- == 0) return segment;
    first = dot + 1;
  }
}

// Like fold_layers(), but folds the rows whose names differ only in the numeric component `index`
// (see number_at()).
std::vector<NamedRow> fold_at(const std::vector<NamedRow>& rows, size_t index) {
  struct Fold {
    std::string before, behind, text;  // parts of the name around the number; text of the rows
    std::vector<int64_t> numbers;
    std::string first;  // name of the first row
    std::vector<size_t> members;
  };
  std::vector<Fold> folds;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> places;
  for (size_t i = 0; i < rows.size(); ++i) {
    const NamedRow& row = rows[i];
    const auto segment = number_at(row.name, index);
    const auto number = segment ? parse_integer(*segment) : std::nullopt;
    if (!number) {
      folds.push_back({{}, {}, row.text, {}, row.name, {i}});
      continue;
    }
    const auto begin = static_cast<size_t>(segment->data() - row.name.data());
    const std::string before = row.name.substr(0, begin),
                      behind = row.name.substr(begin + segment->size());
    const auto [place, fresh] = places.try_emplace({before, behind, row.text}, folds.size());
    if (fresh) folds.push_back({before, behind, row.text, {}, row.name, {}});
    folds[place->second].numbers.push_back(*number);
    folds[place->second].members.push_back(i);
  }
  std::vector<NamedRow> out;
  for (Fold& fold : folds) {
    out.push_back({fold.numbers.size() < 2
                       ? fold.first
                       : cat(fold.before, ranges_text(fold.numbers), fold.behind),
                   fold.text, std::move(fold.members)});
  }
  return out;
}

}  // namespace

std::vector<NamedRow> fold_layers(const std::vector<NamedRow>& rows) { return fold_at(rows, 0); }

std::vector<NamedRow> fold_numbers(const std::vector<NamedRow>& rows) {
  std::vector<NamedRow> folded = fold_layers(rows);
  const auto has_number = [&](size_t index) {
    return std::any_of(folded.begin(), folded.end(), [index](const NamedRow& row) {
      return number_at(row.name, index).has_value();
    });
  };
  for (size_t index = 1; has_number(index); ++index) {
    std::vector<NamedRow> again = fold_at(folded, index);
    for (NamedRow& row : again) {
      std::vector<size_t> members;
      for (const size_t member : row.members) {
        const std::vector<size_t>& inner = folded[member].members;
        members.insert(members.end(), inner.begin(), inner.end());
      }
      row.members = std::move(members);
    }
    folded = std::move(again);
  }
  return folded;
}

}  // namespace am::inspect
