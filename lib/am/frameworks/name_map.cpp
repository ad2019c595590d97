#include "am/frameworks/name_map.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "am/base/number.h"
#include "am/base/text.h"
#include "am/mesh/indices.h"

namespace am::frameworks {

namespace {

constexpr int64_t kMostParts = 1'000'000;  // maximum number of hub tensors in one stored tensor
constexpr size_t kMostDigits = 9;

bool is_marker(char c) { return c == '#' || c == '@'; }

// Returns the digits at the start of the text. Returns nullopt if there are no digits or more than
// kMostDigits, or if the first of several digits is 0, as in "007".
std::optional<std::string_view> leading_number(std::string_view text) {
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  if (digits == 0 || digits > kMostDigits || (digits > 1 && text[0] == '0')) return std::nullopt;
  return text.substr(0, digits);
}

// Returns the layer and expert numbers in the name of a hub tensor; nullopt if the name does not
// match the entry `row` of the table.
std::optional<std::vector<int64_t>> match_hub(const NameRow& row, std::string_view hub) {
  const auto found = match_name(row.hub, hub);
  if (!found) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const auto& number : *found) numbers.push_back(number.value_or(0));
  return numbers;
}

}  // namespace

std::optional<NameNumbers> match_name(std::string_view pattern, std::string_view name) {
  NameNumbers numbers;
  size_t at = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (!is_marker(pattern[i])) {
      if (at == name.size() || name[at] != pattern[i]) return std::nullopt;
      ++at;
      continue;
    }
    if (const auto digits = leading_number(name.substr(at))) {
      numbers.push_back(parse_integer(*digits));
      at += digits->size();
      continue;
    }
    // A name may omit a number only if the number would be a complete component (`.@.` or `.#.` in
    // the pattern). The name then omits one dot, too.
    const bool component =
        i > 0 && pattern[i - 1] == '.' && i + 1 < pattern.size() && pattern[i + 1] == '.';
    if (!component) return std::nullopt;
    numbers.emplace_back();
    ++i;
  }
  if (at != name.size()) return std::nullopt;
  return numbers;
}

std::string fill_name(std::string_view pattern, const std::vector<int64_t>& numbers) {
  std::string name;
  size_t next = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (!is_marker(pattern[i])) {
      name += pattern[i];
      continue;
    }
    const int64_t number = numbers.at(next++);
    if (pattern[i] == '#') {
      name += std::to_string(number);
    } else {
      ++i;
    }
  }
  return name;
}

bool has_word(std::string_view list, std::string_view word) {
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(' ', begin), list.size());
    if (list.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

NameMap::NameMap(const NameTable& table, model::ModelConfig config)
    : table_(table), config_(std::move(config)) {}

bool NameMap::knows_model() const { return has_word(table_.types, config_.model_type); }

bool NameMap::is_of_model(const NameRow& row) const {
  return row.types.empty() || has_word(row.types, config_.model_type);
}

NameMap::Cut NameMap::cut(Rows rows, int64_t stored_rows) const {
  const int64_t heads = config_.num_attention_heads, size = config_.head_dim;
  const int64_t groups = std::max<int64_t>(config_.num_key_value_heads, 1);
  const int64_t queries = heads / groups * size;  // number of query rows of one KV group
  const int64_t stride = queries + 2 * size;
  const int64_t half = stored_rows / 2;
  // A head of odd width has no rotary pairs. With a width of 0, the map has no rows, and parts()
  // reports a mismatch.
  const int64_t pairs = size % 2 == 0 ? size : 0;
  switch (rows) {
    case Rows::kAll:
      return {stored_rows, {}};
    case Rows::kQueryPairs:
      return {heads * size, rows_of_pairs(heads, pairs)};
    case Rows::kKeyPairs:
      return {groups * size, rows_of_pairs(groups, pairs)};
    case Rows::kVocabulary:
      return {std::max(stored_rows, config_.vocab_size), row_range(0, config_.vocab_size)};
    case Rows::kQuery:
      return {groups * stride, rows_of_groups({groups, stride, 0, queries})};
    case Rows::kKey:
      return {groups * stride, rows_of_groups({groups, stride, queries, size})};
    case Rows::kValue:
      return {groups * stride, rows_of_groups({groups, stride, queries + size, size})};
    case Rows::kFirstHalf:
      return {2 * half, row_range(0, half)};
    case Rows::kSecondHalf:
      return {2 * half, row_range(half, half)};
  }
  return {};
}

HubParts NameMap::parts(const NameRow& row, const NameNumbers& numbers, std::string_view stored,
                        const Shape& shape) const {
  const auto wrong = [&](const std::string& what) {
    return HubParts{{}, cat(stored, " is ", shape_text(shape), ", but the config requires ", what)};
  };
  // Required size of a leading dim that replaces a number in a name. The first number counts
  // layers, the second number counts experts.
  const std::array<int64_t, 2> counts = {config_.num_hidden_layers,
                                         config_.moe ? config_.moe->experts : 0};
  std::vector<int64_t> place;
  // For each leading dim of the stored tensor, the number that it replaces: 0 for the layer, 1 for
  // the expert.
  std::vector<size_t> in_front;
  int64_t copies = 1;
  for (size_t i = 0; i < numbers.size(); ++i) {
    place.push_back(numbers[i].value_or(0));
    if (numbers[i]) continue;
    const size_t dim = in_front.size();
    const bool fits = dim < shape.size() && shape[dim] > 0 && shape[dim] == counts.at(i) &&
                      copies <= kMostParts / shape[dim];
    if (!fits) {
      return wrong(cat(counts.at(i), " in dim ", dim));
    }
    copies *= shape[dim];
    in_front.push_back(i);
  }
  if (shape.size() <= in_front.size()) return wrong("more dims");
  const int64_t rows = shape[in_front.size()];
  const Cut wanted = cut(row.rows, rows);
  const bool cut_to_none = !wanted.map.is_whole() && wanted.map.rows() == 0;
  if (wanted.stored != rows || cut_to_none) return wrong(cat(wanted.stored, " rows"));

  HubParts result;
  for (int64_t copy = 0; copy < copies; ++copy) {
    const Shape index =
        mesh::coordinates_of(copy, std::span<const int64_t>(shape).first(in_front.size()));
    for (size_t dim = 0; dim < index.size(); ++dim) place[in_front[dim]] = index[dim];
    result.parts.push_back({fill_name(row.hub, place), {std::string(stored), index, wanted.map}});
  }
  return result;
}

HubParts NameMap::to_hub(std::string_view stored, const Shape& shape) const {
  HubParts result;
  for (const NameRow& row : table_.rows) {
    if (!is_of_model(row)) continue;
    const auto numbers = match_name(row.stored, stored);
    if (!numbers) continue;
    HubParts more = parts(row, *numbers, stored, shape);
    if (!more.problem.empty()) return more;
    std::move(more.parts.begin(), more.parts.end(), std::back_inserter(result.parts));
  }
  return result;
}

bool NameMap::is_trainers(std::string_view stored) const {
  return std::any_of(table_.trainers.begin(), table_.trainers.end(), [&](std::string_view pattern) {
    return match_name(pattern, stored).has_value();
  });
}

std::vector<std::string> NameMap::stored_names(std::string_view hub) const {
  std::vector<std::string> names;
  for (const NameRow& row : table_.rows) {
    if (!is_of_model(row)) continue;
    if (const auto numbers = match_hub(row, hub)) names.push_back(fill_name(row.stored, *numbers));
  }
  return names;
}

std::optional<StoredPart> NameMap::from_hub(std::string_view hub, int64_t rows) const {
  for (const NameRow& row : table_.rows) {
    if (!is_of_model(row)) continue;
    const auto found = match_hub(row, hub);
    if (!found) continue;
    const std::vector<int64_t>& numbers = *found;
    const bool half = row.rows == Rows::kFirstHalf || row.rows == Rows::kSecondHalf;
    StoredPart part{fill_name(row.stored, numbers), {}, cut(row.rows, half ? 2 * rows : rows).map};
    size_t next = 0;
    for (const char c : row.stored) {
      if (c == '@') part.index.push_back(numbers.at(next));
      if (c == '@' || c == '#') ++next;
    }
    return part;
  }
  return std::nullopt;
}

}  // namespace am::frameworks
