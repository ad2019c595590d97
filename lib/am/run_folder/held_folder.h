// A folder that a job writes to, and a check that the folder's path still leads to the folder that
// the job opened. A user may remove, move or replace the folder of a running job; without the
// check, writes to the path could then go to another job's folder.
//
//   const HeldFolder held(run.root());
//   held.require();                // before each write; throws if the path leads to another folder
//   write_record(RunFolder(held.anywhere()), record);     // works even if the folder was moved
#pragma once

#include <filesystem>
#include <string>

#include "am/base/descriptor.h"

namespace am::run_folder {

class HeldFolder {
 public:
  // Opens the folder, and its lock file (run_lock.h) if it has one. If the folder cannot be opened,
  // require() checks nothing.
  explicit HeldFolder(std::filesystem::path path);

  // Throws Error(kIo) if the path no longer leads to the opened folder, or if the folder's lock
  // file was removed or replaced; the message describes what happened. Usually makes only a few
  // calls to the file system. Does not throw if these calls fail for another reason, for example
  // because a file server does not respond.
  void require() const;
  // Returns the folder's path. If this path no longer leads to the opened folder, returns a path in
  // /proc/self/fd instead, which leads to the opened folder even if the folder was moved.
  std::filesystem::path anywhere() const;
  // Returns a path in /proc/self/fd that leads to the opened folder, even if the folder was moved
  // or its path now leads to another folder. Use this path for deletions, and for writes whose
  // errors are not reported, because error messages would show this path. Returns the folder's path
  // if the folder could not be opened.
  std::filesystem::path opened() const;

 private:
  std::filesystem::path path_;
  Descriptor folder_;
  Descriptor lock_;
};

}  // namespace am::run_folder
