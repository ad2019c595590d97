#include "am/values/parameter_view.h"

#include <ATen/ATen.h>

#include <filesystem>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/checkpoint/collective_step.h"
#include "am/inspect/optimizer_states.h"
#include "am/stored/row_blocks.h"
#include "am/tensor/dtype.h"
#include "am/tensor/redistribute.h"
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
              "give a tokenizer.json, tokenizer.model or tekken.json, or a folder that holds one");
}

// Largest number of elements that RankView::reduce() sums at a time.
constexpr int64_t kReduced = int64_t{1} << 22;

// Returns the dtype in which values of `dtype` are reduced; it represents them exactly.
at::ScalarType sum_dtype(at::ScalarType dtype) {
  if (c10::isComplexType(dtype)) return at::kComplexDouble;
  return c10::isIntegralType(dtype, /*includeBool=*/true) ? at::kLong : at::kDouble;
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

void ParameterView::reshard_all() {
  std::vector<const HeldParameter*> all;
  for (const HeldParameter& each : parameters()) all.push_back(&each);
  reshard(all);
}

void RankView::run_on_all_or_fail(const std::function<void()>& body) {
  checkpoint::collective_step(
      group(), [] {}, body);
}

at::Tensor RankView::gather(const at::Tensor& row) {
  at::Tensor all = at::empty({group().size(), row.numel()}, row.options().device(group().device()));
  group().all_gather(all, row.to(group().device()).contiguous());
  return all.cpu();
}

at::Tensor RankView::reduce(const HeldParameter& parameter, const mesh::Box& box) {
  const at::ScalarType dtype = tensor::scalar_type(parameter.dtype);
  at::Tensor all = at::empty(box.shape, at::TensorOptions(dtype));
  stored::for_each_row_block(box, kReduced, [&](const mesh::Box& block) {
    at::Tensor sum = at::zeros(block.shape, at::TensorOptions(sum_dtype(dtype)));
    visit_parts(parameter, block, [&](const Part& part) {
      if (part.first_replica) tensor::view_box(sum, block.offset, part.box).copy_(part.values);
      return true;
    });
    sum = sum.to(group().device());
    group().all_reduce(sum.is_complex() ? at::view_as_real(sum) : sum);
    tensor::view_box(all, box.offset, block).copy_(sum);
  });
  return all;
}

std::vector<HeldBytes> RankView::gather_bytes(const HeldBytes& own) {
  std::vector<HeldBytes> ranks;
  for (const auto& row :
       gather_numbers({own.sharded, own.unsharded, own.gradients, own.optimizer})) {
    ranks.push_back({.rank = static_cast<int64_t>(ranks.size()),
                     .sharded = row[0],
                     .unsharded = row[1],
                     .gradients = row[2],
                     .optimizer = row[3]});
  }
  return ranks;
}

observe::StepMetrics ParameterView::train(int64_t, const Between&) {
  throw Error(ErrorKind::kUsage, "a checkpoint cannot be trained: it has no data",
              "am-repl PLAN trains a plan's ranks step by step; am-repl RUN controls the steps of "
              "a running job");
}

std::string ParameterView::forward_next_batch(const Between&) {
  throw Error(ErrorKind::kUsage, "a checkpoint has no data to run",
              "--of TEXT runs a text; a plan and a job have the data of their next step");
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
  throw Error(ErrorKind::kInternal, "the session cannot read values of tensors");
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
