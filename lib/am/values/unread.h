// Tensors at rest that cannot be read, because a file is missing, cut off or changed, and that do
// not keep the others from being looked at.
//
//   Unread unread(session, all.size());
//   for (const Picked& picked : all) unread.read(picked.label, [&] { rows.add(row_of(picked)); });
//   rows.give(result, "stats", session);
//   unread.give(result);
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "am/inspect/command.h"

namespace am::values {

class Unread {
 public:
  // Of so many tensors. One alone is what was asked for: what keeps it from being read is thrown.
  Unread(const inspect::Session& session, size_t asked);

  // Runs `look`; false where it threw Error(kIo) or Error(kFormat), which is noted under `name`.
  bool read(const std::string& name, const std::function<void()>& look);
  // Adds unread, each with name and problem, to an answer that has its text; where there are any,
  // it has failed.
  void give(inspect::Result& result) const;

 private:
  struct Problem {
    std::string name;
    std::string what;
  };

  bool throws_;
  std::vector<Problem> problems_;
};

}  // namespace am::values
