#include "search_request.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/cluster/implementation.h"
#include "am/config/model_names.h"
#include "am/layout/layout.h"
#include "plan_input.h"

namespace am_plan {
namespace {

// Returns the sizes in a list such as "1,2,4". Throws Error(kUsage) for anything else.
std::vector<int64_t> sizes_in(const std::string& list, const char* option) {
  std::vector<int64_t> sizes;
  for (const std::string& word : am::split(list, ',')) {
    const auto size = am::parse_integer(word);
    if (!size || *size < 1) {
      throw am::Error(am::ErrorKind::kUsage,
                      am::cat(option, " ", list, " is not a list of sizes, each at least 1"),
                      am::cat("for example: ", option, " 1,2,4"));
    }
    sizes.push_back(*size);
  }
  return sizes;
}

// Returns the recipes in a list such as "bf16,mxfp8". Throws Error(kUsage) for an unknown name.
std::vector<am::config::Fp8Recipe> recipes_in(const std::string& list) {
  constexpr std::string_view kWide = "bf16";
  std::vector<am::config::Fp8Recipe> recipes;
  for (const std::string& word : am::split(list, ',')) {
    const auto& all = am::config::kFp8RecipeSpecs;
    const auto* known = std::find_if(all.begin(), all.end(), [&](const auto& one) {
      return word == (one.recipe == am::config::Fp8Recipe::kNone ? kWide : one.name);
    });
    if (known == all.end()) {
      std::vector<std::string> legal = {std::string(kWide)};
      for (const auto& one : all) {
        if (one.recipe != am::config::Fp8Recipe::kNone) legal.emplace_back(one.name);
      }
      throw am::Error(am::ErrorKind::kUsage,
                      am::cat("--precision ", list, ": unknown precision \"", word, "\""),
                      am::cat("legal: ", am::join(legal, ", ")));
    }
    recipes.push_back(known->recipe);
  }
  return recipes;
}

// Sets request.recipes to the value of --precision, `list`. If the search is for am-run
// (implementation automesh), throws Error(kUsage) for a recipe that am-run does not run.
void set_recipes(const std::string& list, am::predict::SearchRequest& request) {
  request.recipes = recipes_in(list);
  if (request.implementation->name != am::cluster::automesh_implementation().name) return;
  for (const am::config::Fp8Recipe recipe : request.recipes) {
    const auto& spec = am::config::spec_of(recipe);
    if (!spec.transformer_engine) continue;
    throw am::Error(am::ErrorKind::kUsage,
                    am::cat("--precision ", list, ": am-run does not run \"", spec.name,
                            "\", a recipe of Transformer Engine"),
                    "give --implementation, for example megatron or torchtitan, or a precision "
                    "that am-run runs: bf16, tensorwise, rowwise");
  }
}

// Returns the value of --headroom, a fraction of a GPU's memory; 0 for an empty text. Throws
// Error(kUsage) unless the value is at least 0 and below 1.
double headroom_of(const std::string& text) {
  if (text.empty()) return 0.0;
  const auto fraction = am::parse_number(text);
  if (fraction && *fraction >= 0.0 && *fraction < 1.0) return *fraction;
  throw am::Error(am::ErrorKind::kUsage,
                  am::cat("--headroom ", text, " is not a fraction from 0 to below 1"),
                  "for example: --headroom 0.1");
}

void require_gpus(const SearchOptions& options, const am::predict::SearchRequest& request) {
  if (options.min_gpus ? options.gpus == 0 : request.gpus > 0) return;
  throw am::Error(am::ErrorKind::kUsage, "give --gpus N or --min-gpus, but not both",
                  "--min-gpus searches on the smallest number of GPUs on which a layout fits");
}

void require_rates(const SearchOptions& options, const am::predict::SearchRequest& request) {
  const bool given = options.hours_between_failures > 0 || options.storage_gb_per_s > 0;
  if (options.goal == "goodput" ? request.counts_failures() : !given) return;
  throw am::Error(
      am::ErrorKind::kUsage,
      "--goal goodput, --hours-between-failures and --storage-gb-per-s must be given together; "
      "the two rates may also be keys of [cluster] in the plan",
      "am-plan search --goal goodput --hours-between-failures 50700 "
      "--storage-gb-per-s 100 ...");
}

// Lets the search keep the plan's values of the keys that --fix names. Throws Error(kUsage) for a
// key that the search does not vary.
void hold(const std::string& keys, am::predict::SearchRequest& request) {
  using Request = am::predict::SearchRequest;
  using Mesh = am::config::MeshSection;
  struct Axis {
    const char* key;
    int64_t Mesh::*size;
    std::vector<int64_t> Request::*sizes;
  };
  constexpr std::array<Axis, 4> kAxes = {{{"mesh.tp_size", &Mesh::tp_size, &Request::tp_sizes},
                                          {"mesh.pp_size", &Mesh::pp_size, &Request::pp_sizes},
                                          {"mesh.cp_size", &Mesh::cp_size, &Request::cp_sizes},
                                          {"mesh.ep_size", &Mesh::ep_size, &Request::ep_sizes}}};
  struct Property {
    const char* key;
    bool Request::Held::*held;
  };
  constexpr std::array<Property, 5> kProperties = {
      {{"mesh.dp_replicate_size", &Request::Held::dp_replicate},
       {"train.micro_batch_size", &Request::Held::micro_batch},
       {"pipeline.schedule", &Request::Held::schedule},
       {"strategy.activation_checkpointing", &Request::Held::checkpointing},
       {"strategy.sequence_parallel", &Request::Held::sequence_parallel}}};
  std::vector<std::string> legal;
  for (const Axis& axis : kAxes) legal.emplace_back(axis.key);
  for (const Property& property : kProperties) legal.emplace_back(property.key);
  for (const std::string& key : am::split(keys, ',')) {
    bool known = false;
    for (const Axis& axis : kAxes) {
      if (key != axis.key) continue;
      request.*axis.sizes = {request.base->mesh.*axis.size};
      known = true;
    }
    for (const Property& property : kProperties) {
      if (key != property.key) continue;
      request.held.*property.held = true;
      known = true;
    }
    if (!known) {
      throw am::Error(am::ErrorKind::kUsage,
                      am::cat("--fix ", key, ": this is not one of the keys that a search varies"),
                      am::cat("legal: ", am::join(legal, ", ")));
    }
  }
}

// Converts a path of the command line to an absolute path, because a relative path in a plan would
// refer to the plan's folder.
std::string from_anywhere(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

// Sets the implementation, the GPU, the calibration's file, and the rates of failures and of
// storage. If the GPU's file is invalid, adds its errors to `found` and returns false. Throws
// Error(kUsage) for an unknown implementation.
bool set_hardware(const SearchOptions& options, const std::optional<am::config::Plan>& base,
                  am::predict::SearchRequest& request, am::Diagnostics& found) {
  const am::config::ClusterSection cluster = base ? base->cluster : am::config::ClusterSection{};
  const bool only_megatron =
      options.strategy == "megatron" &&
      (!base || !std::holds_alternative<am::config::MegatronConfig>(base->strategy));
  const std::string implementation = !options.implementation.empty() ? options.implementation
                                     : only_megatron                 ? std::string("megatron")
                                                                     : cluster.implementation;
  request.implementation = am::cluster::find_implementation(implementation);
  if (request.implementation == nullptr) {
    throw am::Error(am::ErrorKind::kUsage,
                    am::cat("no implementation is called \"", implementation, "\""),
                    am::cat("known: ", am::join(am::cluster::implementation_names(), ", ")));
  }
  request.gpu_name = am::looks_like_path(options.gpu) ? from_anywhere(options.gpu)
                     : !options.gpu.empty()           ? options.gpu
                     : !cluster.gpu.empty()           ? cluster.gpu
                                                      : std::string("h100-sxm");
  const std::string beside = options.gpu.empty() && base ? base->resolve(".").string() : ".";
  auto gpu = am::cluster::find_gpu(request.gpu_name, beside, {}, found);
  if (!gpu) return false;
  request.gpu = *std::move(gpu);
  request.calibration =
      options.calibration.empty() ? cluster.calibration : from_anywhere(options.calibration);
  const auto rate = [&](int64_t given, double in_plan) {
    return given > 0 ? static_cast<double>(given) : options.goal == "goodput" ? in_plan : 0.0;
  };
  request.hours_between_failures =
      rate(options.hours_between_failures, cluster.hours_between_failures);
  request.storage_gb_per_s = rate(options.storage_gb_per_s, cluster.storage_gb_per_s);
  return true;
}

// Sets the sequence length, the number of GPUs, the global batch size and the strategy.
void set_work(const SearchOptions& options, const std::optional<am::config::Plan>& base,
              am::predict::SearchRequest& request) {
  request.seq_len = options.seq_len > 0 ? options.seq_len
                    : base              ? base->train.seq_len
                                        : am::predict::default_seq_len(request.model);
  request.gpus = options.gpus;
  if (base && options.gpus == 0) {
    am::Diagnostics ignored;
    const auto mesh = am::layout::resolve_mesh(*base, 0, ignored);
    request.gpus = mesh ? mesh->world_size() : base->mesh.world_size;
  }
  request.global_batch_size = options.global_batch_size > 0 ? options.global_batch_size
                              : base                        ? base->train.global_batch_size
                                                            : 0;
  request.strategy = !options.strategy.empty() ? options.strategy
                     : base                    ? am::config::strategy_name(base->strategy)
                                               : request.implementation->strategy;
}

// Sets the limits of the search: fixed keys of the plan (--fix, which requires request.base), the
// allowed sizes of tp, pp, cp and ep, the allowed precisions, and the headroom of memory.
void set_limits(const SearchOptions& options, am::predict::SearchRequest& request) {
  if (!options.fixed.empty()) hold(options.fixed, request);
  const auto set_sizes = [](const std::string& list, const char* option, auto& sizes) {
    if (!list.empty()) sizes = sizes_in(list, option);
  };
  set_sizes(options.tp, "--tp", request.tp_sizes);
  set_sizes(options.pp, "--pp", request.pp_sizes);
  set_sizes(options.cp, "--cp", request.cp_sizes);
  set_sizes(options.ep, "--ep", request.ep_sizes);
  if (!options.precision.empty()) set_recipes(options.precision, request);
  request.headroom = headroom_of(options.headroom);
}

}  // namespace

std::optional<am::predict::SearchRequest> request_of(const SearchOptions& options,
                                                     const PlanOptions& plan,
                                                     am::Diagnostics& found) {
  std::optional<am::config::Plan> base;
  if (!plan.files.empty()) {
    base = am::config::load_plan(plan.files.front(), plan.overrides, found);
    if (!base) return std::nullopt;
  } else if (options.model.empty() || !options.fixed.empty() || !plan.overrides.empty()) {
    throw am::Error(
        am::ErrorKind::kUsage,
        options.model.empty() ? "a search needs a PLAN, or --model" : "--set and --fix need a PLAN",
        "am-plan search plan.toml, or am-plan search --model llama-3.1-8b --gpus 8");
  }
  const std::filesystem::path model_path = options.model.empty()
                                               ? base->resolve(base->model.path)
                                               : am::config::model_path(options.model);
  auto model = options.model.empty() ? am::model::load_config(model_path, found)
                                     : load_named_model(options.model, found);
  if (!model) return std::nullopt;
  am::predict::SearchRequest request{.model = *std::move(model)};
  if (options.model.empty()) {
    request.model_path = base->model.path;
    request.model_name = base->model.named;
  } else if (model_path != options.model) {
    request.model_path = model_path.string();
    request.model_name = options.model;
  } else {
    request.model_path = model_seen_from(base ? base->file : std::string(), options.model);
  }
  if (!set_hardware(options, base, request, found)) return std::nullopt;
  set_work(options, base, request);
  request.top = options.top;
  request.runnable = options.runnable;
  request.base = std::move(base);
  set_limits(options, request);
  require_rates(options, request);
  require_gpus(options, request);
  return request;
}

}  // namespace am_plan
