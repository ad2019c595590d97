#include "am/inspect/pick.h"

#include <algorithm>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::inspect {

Picked whole_tensor(const HeldParameter& tensor) {
  return {&tensor, select({}, tensor.shape), tensor.name, {}};
}

namespace {

// Returns the words, after joining the words of each slice: `w[0:4,` and `:8]` become the one word
// `w[0:4, :8]`.
std::vector<std::string> joined_brackets(const std::vector<std::string>& words) {
  std::vector<std::string> joined;
  bool open = false;
  for (const std::string& word : words) {
    if (open) {
      joined.back() += cat(" ", word);
    } else {
      joined.push_back(word);
    }
    const std::string& last = joined.back();
    const size_t bracket = last.rfind('[');
    open = bracket != std::string::npos && last.find(']', bracket) == std::string::npos;
  }
  return joined;
}

// Returns whether the word ends in a slice, for example "[0:4, :8]". Brackets before the end of the
// word belong to a glob. Brackets with characters that a slice cannot contain, for example "[qk]",
// also belong to a glob if the text before them is a glob.
bool ends_in_slice(const std::string& word) {
  const size_t open = word.rfind('[');
  if (open == std::string::npos || open == 0) return false;
  const size_t close = word.find(']', open);
  if (close == std::string::npos) return true;  // parse_subscript() refuses the open bracket
  if (word.back() != ']') return false;
  return word.find_first_not_of("0123456789:,-+ \t]", open + 1) == std::string::npos ||
         !is_glob(word.substr(0, open));
}

// Returns a slice of `from`, which may itself be a slice. The items of `slice` apply to the dims
// that remain in `from`.
Picked sliced(const Picked& from, const std::string& slice) {
  const Selection inner = select(parse_subscript("w" + slice).items, from.selection.shape);
  Picked result{from.parameter, {from.selection.box, inner.shape}, from.label + slice};
  size_t kept = 0;
  for (size_t dim = 0; dim < from.selection.box.shape.size(); ++dim) {
    if (from.taken.contains(dim)) continue;
    result.selection.box.offset[dim] += inner.box.offset[kept];
    result.selection.box.shape[dim] = inner.box.shape[kept];
    ++kept;
  }
  result.taken = from.taken;
  const auto items = parse_subscript("w" + slice).items;
  size_t item = 0;
  for (size_t dim = 0; dim < from.selection.box.shape.size() && item < items.size(); ++dim) {
    if (from.taken.contains(dim)) continue;
    if (items[item++].is_index) result.taken.insert(dim);
  }
  return result;
}

enum class Modules { kAllowed, kRefused };

void add_picked(const Session& session, const std::string& word, Modules modules,
                std::vector<Picked>& out) {
  const auto alias = session.aliases().find(word);
  if (alias != session.aliases().end()) {
    for (const std::string& label : alias->second) {
      if (label != word) add_picked(session, label, Modules::kRefused, out);
    }
    return;
  }
  if (ends_in_slice(word)) {
    const size_t open = word.rfind('[');
    if (word.back() != ']') parse_subscript(word);
    std::vector<Picked> found;
    add_picked(session, word.substr(0, open), Modules::kRefused, found);
    for (const Picked& each : found) out.push_back(sliced(each, word.substr(open)));
    return;
  }
  if (modules == Modules::kAllowed || is_glob(word)) {
    for (const HeldParameter* parameter : session.matching(word))
      out.push_back(whole_tensor(*parameter));
  } else {
    out.push_back(whole_tensor(session.parameter(word)));
  }
}

std::vector<Picked> pick(const Session& session, const std::vector<std::string>& words,
                         Modules modules) {
  std::vector<Picked> all;
  if (words.empty()) {
    for (const HeldParameter* parameter : session.matching(""))
      all.push_back(whole_tensor(*parameter));
    return all;
  }
  for (const std::string& word : joined_brackets(words)) {
    std::vector<Picked> found;
    add_picked(session, word, modules, found);
    for (Picked& each : found) {
      const bool known = std::any_of(all.begin(), all.end(), [&](const Picked& other) {
        return other.parameter == each.parameter && other.label == each.label;
      });
      if (!known) all.push_back(std::move(each));
    }
  }
  return all;
}

}  // namespace

std::vector<Picked> pick_all(const Session& session, const std::vector<std::string>& words) {
  return pick(session, words, Modules::kAllowed);
}

std::vector<Picked> pick_tensors(const Session& session, const std::vector<std::string>& words) {
  return pick(session, words, Modules::kRefused);
}

Picked pick_one(const Session& session, const std::vector<std::string>& words) {
  std::vector<Picked> found = pick_tensors(session, words);
  if (found.size() != 1) {
    throw Error(
        ErrorKind::kUsage,
        cat("`", join(words, " "), "` names ", found.size(), " tensors, but only one can be drawn"),
        cat("name one of them: ", found.front().label));
  }
  return std::move(found.front());
}

int64_t bytes_of(const std::vector<Picked>& all) {
  int64_t bytes = 0;
  for (const Picked& picked : all) bytes += picked.bytes();
  return bytes;
}

}  // namespace am::inspect
