// A named range in a traced step (train/step_trace.h), for example a forward pass of a pipeline
// stage, the all-gather of an FSDP unit, or a collective.
//
//   const TraceRange range([&] { return cat("all_gather ", group); });
#pragma once

#include <ATen/record_function.h>

#include <optional>
#include <string>
#include <utility>

namespace am::runtime {

// Returns whether libtorch's profiler records ranges of this thread.
inline bool is_traced() {
  return at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE).has_value();
}

// Records a range that begins in the constructor and ends in the destructor. `name` returns the
// range's name; the constructor calls it only if this thread is traced.
class TraceRange {
 public:
  template <typename Name>
  explicit TraceRange(const Name& name) {
    auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
    if (!callbacks) return;
    name_ = name();
    function_.emplace(std::move(*callbacks));
    function_->before(std::string_view(name_));
  }
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;

 private:
  std::string name_;
  std::optional<at::RecordFunction> function_;
};

}  // namespace am::runtime
