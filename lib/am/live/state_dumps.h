// Writes reports on all ranks of a running job to files, at intervals. If the job hangs or dies
// without a message, the last files show what its ranks were doing.
//
//   StateDumps dumps(std::chrono::minutes(5), run.root() / "states", report, log);
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace am::live {

class StateDumps {
 public:
  using Use = std::function<void(const std::string& text)>;

  // Calls `report` once per interval, on a thread of this class, unless the previous report is not
  // complete yet. `report` must pass the text of the report to its argument `use`, at once or
  // later, on any thread. A text that arrives after the destruction of this object is dropped. A
  // file's name is the UTC time, for example 20260301T140532Z.txt; the newest 24 files are kept.
  // `log` is called once if files cannot be written.
  StateDumps(std::chrono::duration<double> interval, std::filesystem::path folder,
             std::function<void(const Use& use)> report,
             std::function<void(const std::string& line)> log);
  StateDumps(const StateDumps&) = delete;
  StateDumps& operator=(const StateDumps&) = delete;
  ~StateDumps();

 private:
  struct Writer;
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace am::live
