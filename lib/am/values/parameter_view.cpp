#include "am/values/parameter_view.h"

#include <ATen/ATen.h>

#include <filesystem>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/inspect/optimizer_states.h"
#include "am/values/commands/functions.h"

namespace am::values {
namespace {

// Throws if the path `name` is a pipe or a device, because reading it could block forever.
void require_file_or_folder(const std::string& name) {
  std::error_code ignored;
  const auto status = std::filesystem::status(name, ignored);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status) ||
      std::filesystem::is_directory(status)) {
    return;
  }
  throw Error(ErrorKind::kIo, cat(name, ": not a regular file"),
              "give a tokenizer.json, or a folder that holds one");
}

}  // namespace

std::vector<std::vector<int64_t>> ParameterView::gather_numbers(
    const std::vector<int64_t>& numbers) {
  const at::Tensor all = gather(at::tensor(numbers, at::TensorOptions(at::kLong))).contiguous();
  const auto* values = all.const_data_ptr<int64_t>();
  std::vector<std::vector<int64_t>> rows;
  for (int64_t row = 0; row < all.size(0); ++row, values += numbers.size()) {
    rows.emplace_back(values, values + numbers.size());
  }
  return rows;
}

observe::StepMetrics ParameterView::train(int64_t, const Between&) {
  throw Error(ErrorKind::kUsage, "a checkpoint cannot be trained: it has no data",
              "am-repl PLAN trains a plan's ranks step by step; am-repl RUN controls the steps of "
              "a running job");
}

std::vector<Json> ParameterView::recent_collectives() {
  throw Error(ErrorKind::kUsage, "a checkpoint has no running ranks, and so no collectives",
              "am-repl PLAN starts a plan's ranks; am-repl RUN attaches to a running job");
}

const data::Tokenizer& ParameterView::tokenizer(const std::string& name) {
  if (tokenizer_ && tokenizer_name_ == name) return *tokenizer_;
  if (name != "bytes") require_file_or_folder(name);
  tokenizer_ = data::make_tokenizer(name);
  tokenizer_name_ = name;
  return *tokenizer_;
}

Session session_of(std::unique_ptr<ParameterView> view, SessionOptions options) {
  return Session(std::move(view), std::move(options), value_function);
}

ParameterView& values_of(Session& session) {
  if (auto* view = dynamic_cast<ParameterView*>(&session.view())) return *view;
  throw Error(ErrorKind::kInternal, "a session without values was asked for them");
}

std::optional<double> step_of(Session& session, const HeldParameter& parameter) {
  for (const HeldParameter* state : states_of(session, parameter)) {
    if (state_kind(*state, parameter) != "step" || state->numel() != 1) continue;
    return values_of(session).read(*state, mesh::Box::whole(state->shape)).item<double>();
  }
  const Json step = session.view().info().value("step", Json(nullptr));
  return step.is_number() ? std::optional(step.get<double>()) : std::nullopt;
}

}  // namespace am::values
