#include "am/inspect/pick.h"

#include <algorithm>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::inspect {
namespace {

// Slices have spaces, at which words were parted: `w[0:4,` and `:8]` are one.
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

// "[0:4, :8]", not the "[01]" of a glob in the middle of a name.
bool ends_in_slice(const std::string& word) {
  const size_t open = word.rfind('[');
  if (open == std::string::npos || open == 0) return false;
  if (word.back() != ']') return true;  // parse_subscript says what is wrong
  return word.find_first_not_of("0123456789:,-+ \t]", open + 1) == std::string::npos ||
         !is_glob(word.substr(0, open));
}

Picked whole(const HeldParameter& parameter) {
  return {&parameter, select({}, parameter.shape), parameter.name};
}

enum class Modules { kAllowed, kRefused };

std::vector<const HeldParameter*> named_by(const Session& session, const std::string& word,
                                           Modules modules) {
  if (modules == Modules::kAllowed || is_glob(word)) return session.matching(word);
  return {&session.parameter(word)};
}

void add_picked(const Session& session, const std::string& word, Modules modules,
                std::vector<Picked>& out) {
  if (!ends_in_slice(word)) {
    for (const HeldParameter* parameter : named_by(session, word, modules)) {
      out.push_back(whole(*parameter));
    }
    return;
  }
  const Subscript subscript = parse_subscript(word);
  const std::vector<const HeldParameter*> found =
      is_glob(subscript.name) ? session.matching(subscript.name)
                              : std::vector{&session.parameter(subscript.name)};
  for (const HeldParameter* parameter : found) {
    out.push_back({parameter, select(subscript.items, parameter->shape),
                   cat(parameter->name, word.substr(word.rfind('[')))});
  }
}

std::vector<Picked> pick(const Session& session, const std::vector<std::string>& words,
                         Modules modules) {
  std::vector<Picked> all;
  if (words.empty()) {
    for (const HeldParameter* parameter : session.matching("")) all.push_back(whole(*parameter));
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
    throw Error(ErrorKind::kUsage,
                cat("`", join(words, " "), "` names ", found.size(), " tensors, and one is drawn"),
                cat("name one of them: ", found.front().label));
  }
  return std::move(found.front());
}

}  // namespace am::inspect
