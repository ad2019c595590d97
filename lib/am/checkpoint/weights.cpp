#include "am/checkpoint/weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "am/base/error.h"
#include "am/base/fault.h"
#include "am/base/file.h"
#include "am/base/number.h"
#include "am/base/random.h"
#include "am/base/text.h"
#include "am/checkpoint/collective_step.h"
#include "am/checkpoint/own_part.h"
#include "am/checkpoint/peft.h"
#include "am/checkpoint/read_tensor.h"
#include "am/formats/weight_files.h"
#include "am/frameworks/open_weights.h"
#include "am/mesh/indices.h"
#include "am/run_folder/data_files.h"
#include "am/stored/fit.h"
#include "am/stored/hub_names.h"
#include "am/tensor/gpu_kernels.h"
#include "am/tensor/parallel_for.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

namespace {

// Returns a float32 tensor of the box's shape. Each value is a function of the element's flat index
// in the full tensor, so values do not depend on the sharding. Several threads call fill(out,
// first, count), which must write the values for the indices `first` to `first` + `count` - 1 to
// `out`.
template <typename Fill>
at::Tensor drawn(const Shape& shape, const mesh::Box& box, const Fill& fill) {
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

// Fills `value`, this rank's box of a parameter, with random numbers. The GPU draws the numbers if
// it has a kernel for them; otherwise the host draws them. Both produce the same bits.
template <typename Stream, typename Fill>
void draw(const parallel::LocalParameter& owned, const at::Tensor& value, const Stream& stream,
          float scale, const Fill& fill) {
  mesh::Box box = owned.box;
  if (fault::is_planted(fault::Fault::kInitLocal)) box.offset.assign(box.offset.size(), 0);
  const tensor::Draws draws = {stream.key(), stream.stream(), std::is_same_v<Stream, NormalStream>,
                               scale};
  const tensor::GpuKernels* gpu = tensor::gpu_kernels(value);
  if (gpu != nullptr && gpu->draw(value, owned.shape, box, draws)) return;
  value.copy_(drawn(owned.shape, box, fill));
}

const model::ParameterSpec& spec_of(const parallel::ParallelModel& model, const std::string& name) {
  const auto* spec = model.layout().inventory.find(name);
  AM_ASSERT(spec != nullptr, cat("the inventory lacks ", name));
  return *spec;
}

// Throws Error(kFormat) if a checkpoint stores a head that differs from the embedding, although the
// config ties head and embedding. transformers would use both tensors, but this model has only one
// of them.
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

void initialize_box(const parallel::ParallelModel& model, const model::ParameterSpec& spec,
                    const parallel::LocalParameter& owned, int64_t seed, const at::Tensor& value) {
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
      draw(owned, value, stream, stddev, [&](float* out, int64_t first, int64_t count) {
        stream.fill(out, first, count, 0.0F, stddev);
      });
      break;
    }
    case model::Init::kFanIn: {
      const UniformStream stream(static_cast<uint64_t>(seed), owned.name);
      const auto bound = static_cast<float>(1.0 / std::sqrt(as_double(owned.shape.back())));
      draw(owned, value, stream, bound, [&](float* out, int64_t first, int64_t count) {
        stream.fill(out, first, count, bound);
      });
      break;
    }
  }
}

void initialize_those(parallel::ParallelModel& model, int64_t seed,
                      const std::function<bool(const model::ParameterSpec&)>& which) {
  const at::NoGradGuard no_grad;
  model.for_each_owned(
      [&](parallel::ParamGroup& group, size_t, const parallel::LocalParameter& owned) {
        const model::ParameterSpec& spec = spec_of(model, owned.name);
        if (!which(spec)) return;
        group.change(owned,
                     [&](at::Tensor& value) { initialize_box(model, spec, owned, seed, value); });
      });
}

// Injects a fault for tests: on each rank, flips the sign of one element in the rank's first box
// whose first replica is on another rank.
void flip_sign_in_copy(parallel::ParallelModel& model) {
  const at::NoGradGuard no_grad;
  bool done = false;
  model.for_each_owned([&](parallel::ParamGroup& group, size_t,
                           const parallel::LocalParameter& owned) {
    if (done || owned.first_replica || owned.box.numel() == 0) return;
    group.change(owned, [&](at::Tensor& value) { value.view({-1})[owned.box.numel() / 2].neg_(); });
    done = true;
  });
}

}  // namespace

void initialize(parallel::ParallelModel& model, int64_t seed) {
  initialize_those(model, seed, [](const auto&) { return true; });
  if (fault::is_planted(fault::Fault::kReplicaBit)) flip_sign_in_copy(model);
}

bool load(parallel::ParallelModel& model, const stored::TensorSource& source) {
  const stored::HubNames named(source, model.layout().inventory);
  stored::check_fit(model.layout(), model.config(), named);
  check_tied_head(model, named);
  model.for_each_owned(
      [&](parallel::ParamGroup& group, size_t, const parallel::LocalParameter& owned) {
        // Since check_fit() succeeded, only adapters can be missing; they keep their initial
        // values.
        if (named.find(owned.name) == nullptr) return;
        group.change(owned, [&](at::Tensor& value) { read(named, owned.name, owned.box, value); });
      });
  return stored::has_stored_adapters(model.layout().inventory, named);
}

std::optional<fs::path> weights_path(const config::Plan& plan) {
  const std::string& weights = plan.model.weights;
  if (weights == "none") return std::nullopt;
  if (weights != "auto") return plan.resolve(weights);
  const fs::path folder = folder_of(plan.resolve(plan.model.path));
  if (frameworks::is_tensor_source(folder) && !frameworks::is_pickled_source(folder)) return folder;
  const std::string pickled = formats::weight_files(folder).pickled;
  if (pickled.empty()) return std::nullopt;
  throw Error(ErrorKind::kPlan,
              cat((folder / pickled).string(),
                  ": weights = \"auto\" does not read PyTorch's pickle format"),
              cat("set model.weights = \"", folder.string(),
                  "\" to read these weights, or model.weights = \"none\" to initialise the model"));
}

namespace {

// Opens the weights at `path`. If `path` is a checkpoint of am-run, each rank opens only the part
// that it needs (own_part.h).
std::unique_ptr<stored::TensorSource> open_weights(parallel::ParallelModel& model,
                                                   const fs::path& path) {
  if (!run_folder::is_checkpoint(path)) return frameworks::open_tensor_source(path);
  const runtime::Group& world = model.mesh().group("world");
  collective_step(
      world, [] {},
      [&] {
        if (world.index() != 0) return;
        run_folder::require_complete(path, run_folder::read_checkpoint_info(path));
      });
  return open_own_part(path, model);
}

}  // namespace

std::string load_or_initialize(parallel::ParallelModel& model, const config::Plan& plan) {
  const auto path = weights_path(plan);
  std::string done;
  bool adapters_are_read = plan.lora.rank > 0 && !plan.lora.weights.empty();
  if (path) {
    initialize_those(model, plan.model.seed,
                     [](const auto& spec) { return spec.adapter != model::AdapterPart::kNone; });
    const auto source = open_weights(model, *path);
    if (load(model, *source)) adapters_are_read = true;
    const std::string note = source->note();
    done = cat("loaded from ", path->string(), note.empty() ? "" : cat(" (", note, ")"));
  } else {
    initialize(model, plan.model.seed);
    done = cat("initialised with seed ", plan.model.seed);
  }
  if (!adapters_are_read) initialize_magnitudes(model);
  if (plan.lora.rank == 0 || plan.lora.weights.empty()) return done;
  const fs::path adapter = plan.resolve(plan.lora.weights);
  load_adapter(model, adapter);
  return cat(done, "; adapters from ", adapter.string());
}

}  // namespace am::checkpoint
