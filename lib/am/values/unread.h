// Records tensors at rest that cannot be read, because a file is missing, truncated or changed, so
// that commands can report the readable ones.
//
//   Unread unread(session, all.size());
//   for (const inspect::Picked& picked : all) {
//     unread.read(picked.label, [&] { rows.add(row_of(picked)); });
//   }
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
  // `asked`: number of tensors requested. If it is 1, read() throws errors instead of recording
  // them.
  Unread(const inspect::Session& session, size_t asked);

  // Calls `look`. Returns false if it threw Error(kIo) or Error(kFormat), which is recorded under
  // `name`.
  bool read(const std::string& name, const std::function<void()>& look);
  // Adds the field `unread`, name and problem of each, to a result whose text is complete; if there
  // are any, marks the result as failed.
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
