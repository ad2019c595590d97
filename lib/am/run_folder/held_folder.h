// A folder that a job writes in, while it is the one that the job began in: people remove, move and
// replace folders under running jobs, and what is written by path then lands in somebody else's.
//
//   const HeldFolder held(run.root());
//   held.require();                          // before each write; throws once its path leads elsewhere
//   write_record(RunFolder(held.anywhere()), record);     // reaches it wherever it was moved
#pragma once

#include <filesystem>
#include <string>

#include "am/base/descriptor.h"

namespace am::run_folder {

class HeldFolder {
 public:
  // Opens the folder, and its lock where it has one. One that cannot be opened is not held: nothing
  // is noticed of it.
  explicit HeldFolder(std::filesystem::path path);

  // Throws Error(kIo) that says in one sentence how the folder or its lock was lost. Asks the file
  // system twice; an answer that leaves it open (a server that does not answer) counts as held.
  void require() const;
  // Its path, or where that leads elsewhere one of this process that leads to the folder wherever
  // it was moved.
  std::filesystem::path anywhere() const;

 private:
  std::filesystem::path path_;
  Descriptor folder_;
  Descriptor lock_;
};

}  // namespace am::run_folder
