// model_values PLAN...: computes logits, loss and gradients of each plan's model, for comparison
// with a reference (scripts/fixtures/check_random_families.py).
//
// Reads input_ids and labels from batch.safetensors in the plan's folder. Writes logits, loss,
// grad.PARAMETER and experts (number of tokens routed to each expert) to values.safetensors in the
// same folder. Prints a line of JSON on stdout for each plan: {"plan", "errors": [..]}. Every rank
// of a plan is a thread and processes the whole batch.
#include <ATen/ATen.h>

#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/formats/safetensors.h"
#include "am/frameworks/open_weights.h"
#include "am/job/job.h"
#include "am/parallel/parallel_model.h"
#include "am/runtime/device_mesh.h"
#include "am/runtime/world.h"
#include "am/stored/tensor_source.h"

namespace {

using namespace am;

using Values = std::map<std::string, at::Tensor>;

Values step(parallel::ParallelModel& model, const stored::TensorSource& batch) {
  const at::Tensor labels = checkpoint::read_all(batch, "labels");
  const at::Tensor logits = model.forward(checkpoint::read_all(batch, "input_ids"));
  const int64_t counted = labels.ne(parallel::kIgnoreIndex).sum().item<int64_t>();
  const at::Tensor loss = model.loss_sum(logits, labels) / static_cast<double>(counted);
  // Divides by the number of data-parallel ranks, because each of these ranks computes the whole
  // batch, and gradients are summed over these ranks.
  (loss / static_cast<double>(model.layout().mesh.sizes().dp())).backward();
  model.data_parallel().finish_backward();
  Values values = {{"logits", model.full_logits(logits)}, {"loss", loss.detach().view({1})}};
  // Sums the token counts over the tp group, because each of its ranks routes a part of the tokens.
  at::Tensor taken = at::tensor(model.take_expert_counts(), at::kLong);
  model.mesh().group("tp").all_reduce(taken);
  if (taken.numel() > 0) values["experts"] = taken;
  for (const layout::ParameterLayout& parameter : model.layout().parameters) {
    if (!parameter.trainable) continue;
    values["grad." + parameter.name] = model.full_gradient(parameter.name);
  }
  return values;
}

void save(const std::filesystem::path& file, Values values) {
  std::vector<formats::SafetensorsItem> items;
  for (auto& [name, tensor] : values) {
    const bool counts = tensor.scalar_type() == at::kLong;
    tensor = tensor.to(counts ? at::kLong : at::kFloat).contiguous();
    items.push_back({name, counts ? "I64" : "F32", tensor.sizes().vec()});
  }
  formats::SafetensorsWriter writer(file, items, {});
  for (const auto& [name, tensor] : values) {
    writer.write({static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
  }
  writer.close();
}

void run(const job::Job& job, const std::filesystem::path& folder) {
  const auto batch = frameworks::open_tensor_source(folder / "batch.safetensors");
  const auto weights = frameworks::open_tensor_source(*checkpoint::weights_path(job.plan));
  runtime::run_ranks(job.layout.mesh.world_size(), [&](const runtime::World& world) {
    const runtime::DeviceMesh mesh(world, job.layout.mesh);
    const auto model = parallel::ParallelModel::build(job.plan, job.model, job.layout, mesh);
    checkpoint::load(*model, *weights);
    Values values = step(*model, *batch);
    if (world.rank() == 0) save(folder / "values.safetensors", std::move(values));
  });
}

// Runs the plan and returns the errors of the plan and of the run.
Json errors_of(const std::filesystem::path& plan) {
  Json errors = Json::array();
  try {
    Diagnostics found;
    const auto job = job::open_job({.file = plan}, found);
    for (const Diagnostic& item : found.items()) {
      if (item.severity == Severity::kError) errors.push_back(cat(item.rule, ": ", item.message));
    }
    if (job) run(*job, plan.parent_path());
  } catch (const std::exception& error) {
    errors.push_back(error.what());
  }
  return errors;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: model_values PLAN...\n";
    return 2;
  }
  for (const char* plan : std::span(argv + 1, static_cast<size_t>(argc - 1))) {
    std::cout << dump_json(Json{{"plan", plan}, {"errors", errors_of(plan)}}, -1) << std::endl;
  }
}
