#include "am/checkpoint/weights.h"

#include <ATen/ATen.h>

#include "am/base/error.h"
#include "am/base/random.h"
#include "am/base/text.h"
#include "am/checkpoint/fit.h"
#include "am/checkpoint/hub_names.h"
#include "am/formats/weight_files.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

namespace {

// Fills `out` (contiguous float32, [box.shape]) with the stream's values at the box's global
// indices: runs along the last dim are contiguous in both.
void fill_normal(const NormalStream& stream, const Shape& shape, const mesh::Box& box,
                 double stddev, const at::Tensor& out) {
  const size_t dims = shape.size();
  const int64_t run = dims == 0 ? 1 : box.shape[dims - 1];
  const int64_t runs = run == 0 ? 0 : box.numel() / run;
  auto* values = out.data_ptr<float>();
  for (int64_t i = 0; i < runs; ++i) {
    int64_t rest = i;
    int64_t index = dims == 0 ? 0 : box.offset[dims - 1];
    int64_t stride = dims == 0 ? 1 : shape[dims - 1];
    for (size_t dim = dims; dim-- > 1;) {
      const size_t outer = dim - 1;
      index += (box.offset[outer] + rest % box.shape[outer]) * stride;
      rest /= box.shape[outer];
      stride *= shape[outer];
    }
    stream.fill(values + i * run, index, run, 0.0F, static_cast<float>(stddev));
  }
}

const model::ParameterSpec& spec_of(const parallel::ParallelModel& model, const std::string& name) {
  const auto* spec = model.layout().inventory.find(name);
  AM_ASSERT(spec != nullptr, cat("the inventory lacks ", name));
  return *spec;
}

// A checkpoint may spell out a tied head. transformers would then use both; our model has one, so
// they must agree.
void check_tied_head(const parallel::ParallelModel& model, const TensorSource& source) {
  const model::Inventory& inventory = model.layout().inventory;
  const std::string head_name = cat(inventory.names.head, ".weight");
  if (!inventory.tied_lm_head || source.find(head_name) == nullptr) return;
  const std::string& embedding_name =
      inventory.parameters[inventory.weight_of(model::Role::kHead)].name;
  const at::Tensor head = source.read_all(head_name);
  const at::Tensor embedding = source.read_all(embedding_name);
  if (head.sizes() != embedding.sizes() || !at::equal(head, embedding)) {
    throw Error(ErrorKind::kFormat,
                cat(source.path().string(), ": ", head_name, " differs from ", embedding_name,
                    ", but the config ties them"),
                "set tie_word_embeddings to false in config.json");
  }
}

}  // namespace

void initialize(parallel::ParallelModel& model, int64_t seed) {
  const at::NoGradGuard no_grad;
  model.for_each_owned([&](parallel::ParamGroup&, size_t, const parallel::OwnedParameter& owned) {
    at::Tensor value = owned.value;
    switch (spec_of(model, owned.name).init) {
      case model::Init::kOnes:
        value.fill_(1.0);
        break;
      case model::Init::kZeros:
        value.zero_();
        break;
      case model::Init::kNormal: {
        const NormalStream stream(static_cast<uint64_t>(seed), owned.name);
        at::Tensor drawn = at::empty(owned.box.shape, at::kFloat);
        fill_normal(stream, owned.shape, owned.box, model.config().initializer_range, drawn);
        value.copy_(drawn);
        break;
      }
    }
  });
}

void load(parallel::ParallelModel& model, const TensorSource& source) {
  const HubNames named(source, model.layout().inventory);
  check_fit(model.layout(), model.config(), named);
  check_tied_head(model, named);
  model.for_each_owned([&](parallel::ParamGroup&, size_t, const parallel::OwnedParameter& owned) {
    named.read(owned.name, owned.box, owned.value);
  });
}

std::optional<fs::path> weights_path(const config::Plan& plan) {
  const std::string& weights = plan.model.weights;
  if (weights == "none") return std::nullopt;
  if (weights != "auto") return plan.resolve(weights);
  const fs::path config = plan.resolve(plan.model.path);
  const fs::path folder = fs::is_directory(config) ? config : config.parent_path();
  if (is_tensor_source(folder)) return folder;
  const std::string pickled = formats::weight_files(folder).pickled;
  if (pickled.empty()) return std::nullopt;
  throw Error(ErrorKind::kPlan, cat((folder / pickled).string(), ": pickled weights are not read"),
              "convert them to safetensors (transformers' save_pretrained), or begin anew with "
              "model.weights = \"none\"");
}

std::string load_or_initialize(parallel::ParallelModel& model, const config::Plan& plan) {
  const auto path = weights_path(plan);
  if (!path) {
    initialize(model, plan.model.seed);
    return cat("initialised with seed ", plan.model.seed);
  }
  const auto source = open_tensor_source(*path);
  load(model, *source);
  return cat("loaded from ", path->string());
}

}  // namespace am::checkpoint
