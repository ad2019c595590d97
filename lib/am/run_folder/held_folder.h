// A folder that a job writes to, and a check that its path still leads to the folder that the job
// opened. If a user removes, moves or replaces the folder of a running job, writes by path could go
// to another job's folder.
//
//   const HeldFolder held(run.root());
//   held.require();                // before each write; throws if the path leads elsewhere
//   write_record(RunFolder(held.anywhere()), record);     // works even if the folder was moved
#pragma once

#include <filesystem>
#include <string>

#include "am/base/descriptor.h"

namespace am::run_folder {

class HeldFolder {
 public:
  // Opens the folder, and its lock file if it has one. A folder that cannot be opened is not
  // checked.
  explicit HeldFolder(std::filesystem::path path);

  // Throws Error(kIo) with a sentence about how the folder or its lock was lost. Makes two calls to
  // the file system; if the result is inconclusive (a server does not respond), the folder counts
  // as held.
  void require() const;
  // Returns the folder's path or, if that leads elsewhere, a path in this process's /proc that
  // reaches the moved folder.
  std::filesystem::path anywhere() const;

 private:
  std::filesystem::path path_;
  Descriptor folder_;
  Descriptor lock_;
};

}  // namespace am::run_folder
