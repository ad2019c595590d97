#include "am/checkpoint/weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "am/base/error.h"
#include "am/base/fault.h"
#include "am/base/file.h"
#include "am/base/number.h"
#include "am/base/random.h"
#include "am/base/text.h"
#include "am/checkpoint/peft.h"
#include "am/checkpoint/read_tensor.h"
#include "am/formats/weight_files.h"
#include "am/mesh/indices.h"
#include "am/stored/fit.h"
#include "am/stored/hub_names.h"
#include "am/tensor/parallel_for.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

namespace {

// Fills a float32 tensor of the box's shape with values of the global indices that it has:
// `fill(out, first, count)` runs along the last dim, which are contiguous in both; on all threads.
template <typename Fill>
at::Tensor drawn(const Shape& shape, mesh::Box box, const Fill& fill) {
  if (fault::is_planted(fault::Fault::kInitLocal)) box.offset.assign(box.offset.size(), 0);
  at::Tensor out = at::empty(box.shape, at::kFloat);
  const size_t dims = shape.size();
  const int64_t run = dims == 0 ? 1 : box.shape[dims - 1];
  const int64_t runs = run == 0 ? 0 : box.numel() / run;
  auto* values = out.data_ptr<float>();
  constexpr int64_t kGrain = 16384;
  tensor::parallel_for(0, runs, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, run)),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t i = begin; i < end; ++i) {
                           fill(values + i * run, mesh::flat_index(box, shape, i * run), run);
                         }
                       });
  return out;
}

const model::ParameterSpec& spec_of(const parallel::ParallelModel& model, const std::string& name) {
  const auto* spec = model.layout().inventory.find(name);
  AM_ASSERT(spec != nullptr, cat("the inventory lacks ", name));
  return *spec;
}

// A checkpoint may spell out a tied head. transformers would then use both; our model has one, so
// they must agree.
void check_tied_head(const parallel::ParallelModel& model, const stored::TensorSource& source) {
  const model::Inventory& inventory = model.layout().inventory;
  const std::string head_name = cat(inventory.names.head, ".weight");
  if (!inventory.tied_lm_head || source.find(head_name) == nullptr) return;
  const std::string& embedding_name =
      inventory.parameters[inventory.weight_of(model::Role::kHead)].name;
  const at::Tensor head = checkpoint::read_all(source, head_name);
  const at::Tensor embedding = checkpoint::read_all(source, embedding_name);
  if (head.sizes() != embedding.sizes() || !at::equal(head, embedding)) {
    throw Error(ErrorKind::kFormat,
                cat(source.path().string(), ": ", head_name, " differs from ", embedding_name,
                    ", but the config ties them"),
                "set tie_word_embeddings to false in config.json");
  }
}

}  // namespace

namespace {

void initialize_those(parallel::ParallelModel& model, int64_t seed,
                      const std::function<bool(const model::ParameterSpec&)>& which) {
  const at::NoGradGuard no_grad;
  model.for_each_owned([&](parallel::ParamGroup&, size_t, const parallel::OwnedParameter& owned) {
    const model::ParameterSpec& spec = spec_of(model, owned.name);
    if (!which(spec)) return;
    at::Tensor value = owned.value;
    switch (spec.init) {
      case model::Init::kOnes:
        value.fill_(1.0);
        break;
      case model::Init::kZeros:
        value.zero_();
        break;
      case model::Init::kNormal: {
        const NormalStream stream(static_cast<uint64_t>(seed), owned.name);
        const auto stddev = static_cast<float>(model.config().initializer_range);
        value.copy_(drawn(owned.shape, owned.box, [&](float* out, int64_t first, int64_t count) {
          stream.fill(out, first, count, 0.0F, stddev);
        }));
        break;
      }
      case model::Init::kFanIn: {
        const UniformStream stream(static_cast<uint64_t>(seed), owned.name);
        const auto bound = static_cast<float>(1.0 / std::sqrt(as_double(owned.shape.back())));
        value.copy_(drawn(owned.shape, owned.box, [&](float* out, int64_t first, int64_t count) {
          stream.fill(out, first, count, bound);
        }));
        break;
      }
    }
  });
}

// In the middle of the first parameter of which this rank has what another one has too.
void flip_sign_in_copy(parallel::ParallelModel& model) {
  const at::NoGradGuard no_grad;
  bool done = false;
  model.for_each_owned([&](parallel::ParamGroup&, size_t, const parallel::OwnedParameter& owned) {
    if (done || owned.first_replica || owned.box.numel() == 0) return;
    at::Tensor value = owned.value;
    value.view({-1})[owned.box.numel() / 2].neg_();
    done = true;
  });
}

}  // namespace

void initialize(parallel::ParallelModel& model, int64_t seed) {
  initialize_those(model, seed, [](const auto&) { return true; });
  if (fault::is_planted(fault::Fault::kReplicaBit)) flip_sign_in_copy(model);
}

void load(parallel::ParallelModel& model, const stored::TensorSource& source) {
  const stored::HubNames named(source, model.layout().inventory);
  stored::check_fit(model.layout(), model.config(), named);
  check_tied_head(model, named);
  model.for_each_owned([&](parallel::ParamGroup&, size_t, const parallel::OwnedParameter& owned) {
    // What is not there is an adapter's.
    if (named.find(owned.name) != nullptr) read(named, owned.name, owned.box, owned.value);
  });
}

std::optional<fs::path> weights_path(const config::Plan& plan) {
  const std::string& weights = plan.model.weights;
  if (weights == "none") return std::nullopt;
  if (weights != "auto") return plan.resolve(weights);
  const fs::path folder = folder_of(plan.resolve(plan.model.path));
  if (stored::is_tensor_source(folder) && !stored::is_pickled_source(folder)) return folder;
  const std::string pickled = formats::weight_files(folder).pickled;
  if (pickled.empty()) return std::nullopt;
  throw Error(ErrorKind::kPlan,
              cat((folder / pickled).string(), ": weights = \"auto\" reads no pickled weights"),
              cat("model.weights = \"", folder.string(),
                  "\" reads them; model.weights = \"none\" begins anew"));
}

std::string load_or_initialize(parallel::ParallelModel& model, const config::Plan& plan) {
  const auto path = weights_path(plan);
  std::string done;
  if (path) {
    initialize_those(model, plan.model.seed,
                     [](const auto& spec) { return spec.adapter != model::AdapterPart::kNone; });
    const auto source = stored::open_tensor_source(*path);
    load(model, *source);
    const std::string note = source->note();
    done = cat("loaded from ", path->string(), note.empty() ? "" : cat(" (", note, ")"));
  } else {
    initialize(model, plan.model.seed);
    done = cat("initialised with seed ", plan.model.seed);
  }
  if (plan.lora.rank == 0 || plan.lora.weights.empty()) return done;
  const fs::path adapter = plan.resolve(plan.lora.weights);
  load_adapter(model, adapter);
  return cat(done, "; adapters from ", adapter.string());
}

}  // namespace am::checkpoint
