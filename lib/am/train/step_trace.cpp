#include "am/train/step_trace.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/observe/chrome_trace.h"

// Declared here, because libtorch's header with this declaration includes a header that libtorch
// does not ship.
namespace torch::autograd::profiler {
TORCH_API void addMetadataJson(const std::string& key, const std::string& value);
}

namespace am::train {

namespace fs = std::filesystem;
namespace profiler = torch::autograd::profiler;
namespace impl = torch::profiler::impl;

StepTrace::StepTrace(const std::optional<config::TraceSection>& section,
                     const runtime::DeviceMesh& mesh, fs::path folder)
    : mesh_(mesh), folder_(std::move(folder)) {
  if (!section || mesh.device().is_meta()) return;
  section_ = section;
  const auto& ranks = section->ranks;
  traced_ = ranks.empty() || std::find(ranks.begin(), ranks.end(), mesh.rank()) != ranks.end();
}

StepTrace::~StepTrace() {
  try {
    if (first_ > 0) profiler::disableProfiler();
    if (history_ != nullptr) history_->end();
  } catch (const std::exception&) {
    // The profiler throws here if the GPU has failed. The error of the GPU was thrown earlier.
  }
}

void StepTrace::begin_step(int64_t step) {
  if (!section_ || !traced_ || first_ > 0 || step < section_->start) return;
  if (step >= section_->start + section_->steps) return;
  std::set<impl::ActivityType> activities = {impl::ActivityType::CPU};
  if (mesh_.device().is_cuda()) activities.insert(impl::ActivityType::CUDA);
  const impl::ProfilerConfig config(impl::ProfilerState::KINETO);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(
      config, activities,
      {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE});
  // Programs that read the traces of several ranks, such as Holistic Trace Analysis (HTA), need
  // the entry "distributedInfo" with the keys rank and world_size.
  profiler::addMetadataJson(
      "distributedInfo",
      cat(R"({"rank": )", mesh_.rank(), R"(, "world_size": )", mesh_.layout().world_size(), "}"));
  if (section_->memory && mesh_.device().is_cuda()) {
    history_ = tensor::memory_history();
    history_->begin();
  }
  first_ = step;
}

std::vector<std::string> StepTrace::end_step(int64_t step) {
  last_ = step;
  if (!section_ || step != section_->start + section_->steps - 1) return {};
  return write_all();
}

std::vector<std::string> StepTrace::finish() {
  if (!section_ || last_ < section_->start) return {};
  return write_all();
}

std::vector<std::string> StepTrace::write_all() {
  section_.reset();
  const std::string mine = first_ > 0 ? write() : "";
  std::vector<std::string> lines = mesh_.group("world").all_gather_text(mine);
  std::erase(lines, "");
  // Keeps only the first of the lines that name a written trace, and all lines with errors.
  const auto is_error = [](const std::string& line) { return starts_with(line, "note"); };
  const auto written = std::find_if_not(lines.begin(), lines.end(), is_error);
  const std::string first = written == lines.end() ? "" : *written;
  std::erase_if(lines, [&](const std::string& line) { return !is_error(line); });
  if (!first.empty()) lines.insert(lines.begin(), first);
  return lines;
}

std::string StepTrace::write() {
  const auto trace = profiler::disableProfiler();
  std::optional<std::string> allocations;
  if (const auto* history = std::exchange(history_, nullptr)) allocations = history->end();
  const int64_t first = std::exchange(first_, 0);
  const fs::path name =
      folder_ / cat("step-", first, first == last_ ? "" : cat("-", last_), ".rank-", mesh_.rank());
  const fs::path file = name.string() + ".json";
  const fs::path raw = file.string() + ".raw", partial = file.string() + ".partial";
  try {
    fs::create_directories(behind_own_links(folder_));
    if (allocations) write_own_file(name.string() + ".memory.pickle", *allocations);
    fs::remove(raw);
    trace->save(raw);  // does not report errors
    observe::copy_nested(raw, partial);
    fs::remove(raw);
    fs::rename(partial, file);
  } catch (const fs::filesystem_error& error) {
    return cat("note        no trace was written: ", error.path1().string(), ": ",
               error.code().message());
  } catch (const Error& error) {
    return cat("note        no trace was written: ", error.what());
  }
  return cat("trace       ", file.string());
}

}  // namespace am::train
