#include "am/stored/torch_entries.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/stored/dtensor.h"

namespace am::stored {

namespace {

using formats::PickleKind;
using formats::PickleValue;

constexpr size_t kMostKeys = 4'000'000;
constexpr size_t kDeepestKeys = 16;
constexpr size_t kTop = std::numeric_limits<size_t>::max();

// A value in a nested dict or list.
struct Entry {
  std::string key;
  size_t holder = kTop;  // index of the enclosing dict's or list's entry; kTop: the root
  PickleValue value;
  size_t depth = 1;  // number of keys that lead to the value
};

// Returns the value without the type tag that torch::pickle_save of C++ adds.
PickleValue without_type(const PickleValue& value) {
  const bool typed = value.is_object("torch.jit._pickle", "restore_type_tag");
  return typed && !value.arguments().items().empty() ? value.arguments().items().front() : value;
}

bool holds_more(const PickleValue& value) {
  return value.is(PickleKind::kDict) || value.is(PickleKind::kList) ||
         value.is(PickleKind::kTuple) || value.is_object("collections", "OrderedDict");
}

bool is_tensor(const formats::TorchArchive& archive, const PickleValue& value) {
  return is_dtensor(value) || archive.tensor(value).has_value();
}

// Appends an entry to `entries` for each element of `value`, a dict, list or tuple. The entry's key
// is the dict key or the index in the list. Omits list elements that are not dicts, lists, tuples
// or tensors, and dict keys that are neither texts nor integers. Appends nothing if `depth`, the
// number of keys that lead to `value`, is kDeepestKeys.
void list(const formats::TorchArchive& archive, const PickleValue& value, size_t holder,
          size_t depth, std::vector<Entry>& entries) {
  if (depth == kDeepestKeys || !holds_more(value)) return;
  const auto add = [&](std::string key, const PickleValue& held) {
    entries.push_back({std::move(key), holder, without_type(held), depth + 1});
  };
  if (value.is(PickleKind::kList) || value.is(PickleKind::kTuple)) {
    for (size_t i = 0; i < value.items().size(); ++i) {
      const PickleValue& item = value.items()[i];
      if (holds_more(without_type(item)) || is_tensor(archive, item)) add(std::to_string(i), item);
    }
    return;
  }
  const auto pairs = value.is(PickleKind::kDict) ? value.items() : value.contents();
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (const auto text = pairs[i].text()) {
      add(std::string(*text), pairs[i + 1]);
    } else if (const auto number = pairs[i].integer()) {
      add(std::to_string(*number), pairs[i + 1]);  // for example an optimizer's parameter number
    }
  }
}

KeyPath path_of(const std::vector<Entry>& entries, size_t entry) {
  KeyPath path;
  for (; entry != kTop; entry = entries[entry].holder) path.push_back(entries[entry].key);
  std::reverse(path.begin(), path.end());
  return path;
}

// Returns whether the value is None, a Boolean, a number, a text, a tuple or a list.
bool is_plain(const PickleValue& value) {
  switch (value.kind()) {
    case PickleKind::kNone:
    case PickleKind::kBool:
    case PickleKind::kInt:
    case PickleKind::kFloat:
    case PickleKind::kText:
    case PickleKind::kTuple:
    case PickleKind::kList:
      return true;
    default:
      return false;
  }
}

}  // namespace

TorchEntries list_entries(const formats::TorchArchive& archive, const std::string& where) {
  TorchEntries found;
  const PickleValue root = without_type(archive.root());
  if (is_tensor(archive, root)) {
    found.tensors.push_back({{"tensor"}, root});
    return found;
  }
  std::vector<Entry> entries;
  list(archive, root, kTop, 0, entries);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries.size() > kMostKeys) {
      throw Error(ErrorKind::kFormat, cat(where, ": it has more than ", kMostKeys, " keys"));
    }
    const PickleValue value = entries[i].value;
    if (is_tensor(archive, value)) {
      found.tensors.push_back({path_of(entries, i), value});
      continue;
    }
    const size_t before = entries.size();
    list(archive, value, i, entries[i].depth, entries);
    const bool holds_none = entries.size() == before;
    if (holds_none && is_plain(value)) found.values.push_back({path_of(entries, i), value});
  }
  return found;
}

}  // namespace am::stored
