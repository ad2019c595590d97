// The dashboard of a running job: its step, the curve of its loss, and for each rank what it does
// and how long it waits for others.
//
//   DashboardData data;
//   data.update(interpreter);                       // the job's answers of this moment
//   screen.draw(dashboard_text(data, 24, style));
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/inspect/interpreter.h"
#include "am/term/line_plot.h"
#include "am/term/style.h"

namespace am::inspect {

// A terminal whose window is filled by one text at a time, until the user leaves.
class Screen {
 public:
  virtual ~Screen() = default;
  virtual int rows() const = 0;
  virtual int columns() const = 0;
  // Shows the text in place of the previous one.
  virtual void draw(const std::string& text) = 0;
  // Waits for `time` and returns true. Returns false as soon as the user leaves with the key q, Esc
  // or Ctrl-C.
  virtual bool wait(std::chrono::milliseconds time) = 0;
};

struct DashboardData {
  std::string title;
  Json status;      // answer of `status`
  Json ranks;       // answer of `ranks`
  Json stragglers;  // answer of `stragglers`; null if the job has reported no times
  term::Curve loss;

  // Reads the losses of the steps so far from a run's metrics.jsonl, if the file exists.
  void read_losses(const std::filesystem::path& metrics);
  // Requests the current status, ranks and stragglers from the job. Throws Error(kUsage) if the
  // session is not attached to a job, and SessionLost if the job has ended.
  void update(Interpreter& interpreter);
  Json to_json() const;
};

// Returns the dashboard as text of at most `rows` lines that fit into style.width. Ranks that do
// not answer come first, then slow ranks. The last line of the table counts the ranks that do not
// fit. The text lists at least one rank, even if it then has more than `rows` lines.
std::string dashboard_text(const DashboardData& data, int rows, const term::Style& style);

}  // namespace am::inspect
