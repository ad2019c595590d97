// Records the tensors that cannot be read because a file of a checkpoint is missing, truncated or
// changed. Commands can then still report the other tensors.
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
  // `asked` is the number of requested tensors. If `asked` is less than 2, or if the tensors are in
  // the memory of ranks, read() rethrows errors instead of recording them.
  Unread(const inspect::Session& session, size_t asked);

  // Calls `look` and returns true. If `look` throws Error(kIo) or Error(kFormat), records the error
  // under `name` and returns false.
  bool read(const std::string& name, const std::function<void()>& look);
  // If tensors could not be read, lists all of them with their problems in the JSON of the result
  // (field `unread`), lists the first few also in the text of the result, and marks the result as
  // failed. Must be called after all other changes of the result.
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
