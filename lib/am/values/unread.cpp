#include "am/values/unread.h"

#include <algorithm>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::values {
namespace {

constexpr size_t kMostShown = 6;

}  // namespace

// read() rethrows all errors if only one tensor was requested. It also rethrows them if the tensors
// are in the memory of ranks, because all ranks must then fail together.
Unread::Unread(const inspect::Session& session, size_t asked)
    : throws_(asked < 2 || !session.view().at_rest()) {}

bool Unread::read(const std::string& name, const std::function<void()>& look) {
  try {
    look();
    return true;
  } catch (const Error& error) {
    const bool of_file = error.kind() == ErrorKind::kIo || error.kind() == ErrorKind::kFormat;
    if (throws_ || !of_file) throw;
    problems_.push_back({name, error.what()});
    return false;
  }
}

void Unread::give(inspect::Result& result) const {
  if (problems_.empty()) return;
  Json list = Json::array();
  for (const Problem& problem : problems_) {
    list.push_back({{"name", problem.name}, {"problem", problem.what}});
    if (list.size() <= kMostShown) {
      result.text += cat("cannot read ", problem.name, ": ", problem.what, "\n");
    }
  }
  if (list.size() > kMostShown) {
    result.text += cat("and ", list.size() - kMostShown, " more; `verify` lists them\n");
  }
  result.json["unread"] = list;
  result.failed = true;
}

}  // namespace am::values
