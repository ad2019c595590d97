#include "am/frameworks/open_weights.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/formats/dcp_metadata.h"
#include "am/frameworks/accelerate/checkpoint.h"
#include "am/frameworks/accelerate/numbered_states.h"
#include "am/frameworks/mapped_source.h"
#include "am/frameworks/name_map.h"
#include "am/frameworks/nemo_automodel/checkpoint.h"
#include "am/frameworks/torch_checkpointing/checkpoint.h"
#include "am/run_folder/checkpoint_info.h"
#include "am/stored/automesh_source.h"
#include "am/stored/dcp_source.h"
#include "am/stored/hf_shards_source.h"
#include "am/stored/hf_source.h"
#include "am/stored/torch_source.h"

namespace am::frameworks {

namespace fs = std::filesystem;

namespace {

using stored::OnDamage;
using Source = std::unique_ptr<stored::TensorSource>;

constexpr const char* kOlmoStates = "model_and_optim";
constexpr const char* kMegatronNewest = "latest_checkpointed_iteration.txt";
constexpr size_t kMegatronDigits = 7;

// Returns the parent folder of `folder`.
fs::path beside(const fs::path& folder) {
  const fs::path path = fs::absolute(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path())
      .parent_path();  // ignores a slash at the end of `folder`
}

bool any_name(const formats::DcpMetadata& metadata, const auto& fits) {
  return std::any_of(metadata.tensors.begin(), metadata.tensors.end(),
                     [&](const formats::DcpTensor& tensor) { return fits(tensor.name); });
}

bool any_value(const formats::DcpMetadata& metadata, const auto& fits) {
  return std::any_of(metadata.values.begin(), metadata.values.end(),
                     [&](const formats::DcpValue& value) { return fits(value.name); });
}

// Whether torchtitan wrote the checkpoint: it contains torchtitan's training state or parameter
// names. The training state alone is not sufficient, because the last checkpoint of a job may
// contain only the model.
bool is_torchtitan(const formats::DcpMetadata& metadata) {
  constexpr std::string_view kStep = "train_state.step";
  if (any_value(metadata, [&](std::string_view name) { return name == kStep; })) return true;
  return any_name(metadata, [&](std::string_view name) {
    return name == kStep || name == "tok_embeddings.weight" ||
           match_name("layers.#.attention.wo.weight", name).has_value();
  });
}

bool is_olmo(const formats::DcpMetadata& metadata) {
  if (metadata.writer == "olmo_core") return true;
  return any_name(metadata, [](std::string_view name) {
    return match_name("model.blocks.#.attention.w_out.weight", name).has_value();
  });
}

// Whether Megatron-FSDP wrote the checkpoint. The prefix "model.module." alone is not sufficient,
// because the names of a model wrapped in DDP may also begin with this prefix.
bool is_megatron_fsdp(const formats::DcpMetadata& metadata) {
  return any_name(metadata, [](std::string_view name) {
    return starts_with(name, "model.module.decoder.") ||
           starts_with(name, "model.module.embedding.") ||
           starts_with(name, "optimizer.state.module.module.module.");
  });
}

// Returns the format of a Megatron checkpoint from its metadata.json, for example "torch_dist" or
// "zarr". Returns an empty text if metadata.json does not exist or does not name a format. Megatron
// writes metadata.json last, when the checkpoint is complete.
std::string sharded_backend(const fs::path& folder) {
  const fs::path file = folder / "metadata.json";
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return {};
  Diagnostics found;
  const auto json = parse_json(read_file(file), file.string(), found);
  if (!json || !json->is_object() || !json->contains("sharded_backend")) return {};
  const Json& backend = (*json)["sharded_backend"];
  return backend.is_string() ? backend.get<std::string>() : std::string();
}

Source open_dcp_folder(const fs::path& folder, OnDamage /*damage*/) {
  auto metadata = formats::read_dcp_metadata(folder / formats::kDcpMetadataFile);
  const NameTable* table = nullptr;
  TrainerFacts facts;
  std::vector<fs::path> configs = {folder, beside(folder)};
  if (!sharded_backend(folder).empty()) {
    table = &megatron_table();
    facts = megatron_facts(folder, metadata);
  } else if (is_megatron_fsdp(metadata)) {
    table = &megatron_fsdp_table();
  } else if (is_olmo(metadata)) {
    table = &olmo_table();
    configs.push_back(beside(configs.back()));  // parent of step123/ for step123/model_and_optim/
    facts = olmo_facts(beside(folder));
  } else if (is_torchtitan(metadata)) {
    table = &torchtitan_table();
  }
  auto stored = stored::open_dcp_source(folder, std::move(metadata));
  return table == nullptr ? std::move(stored)
                          : as_hub(std::move(stored), *table, configs, std::move(facts));
}

// Returns the folder of Megatron's newest checkpoint in `parent`. The file
// latest_checkpointed_iteration.txt names this folder: for example, "123" means iter_0000123/, and
// "release" means release/.
fs::path newest_of_megatron(const fs::path& parent) {
  const fs::path file = parent / kMegatronNewest;
  const std::string text(trim(read_file(file)));
  if (text == "release") return parent / text;
  const auto number = parse_integer(text);
  if (!number || *number < 0) {
    throw Error(ErrorKind::kFormat,
                cat(file.string(), ": it holds neither a step number nor \"release\""));
  }
  const std::string digits = std::to_string(*number);
  const std::string zeros(digits.size() < kMegatronDigits ? kMegatronDigits - digits.size() : 0,
                          '0');
  return parent / cat("iter_", zeros, digits);
}

// Returns the folder in which to look for the safetensors files of each rank: the subfolder
// sharded/ if it exists and `path` itself contains no safetensors weights; otherwise `path`.
// PyTorch's writer and torchtitan use sharded/ if they later consolidate the files into `path`.
fs::path shards_of(const fs::path& path) {
  const fs::path below = path / "sharded";
  return stored::is_hf_source(path) || !fs::is_directory(below) ? path : below;
}

bool has_entry(const fs::path& folder, std::string_view pattern) {
  if (!fs::is_directory(folder)) return false;
  return std::any_of(fs::directory_iterator(folder), fs::directory_iterator(),
                     [&](const fs::directory_entry& entry) {
                       return glob_match(pattern, entry.path().filename().string());
                     });
}

// is_deepspeed() recognises folders of DeepSpeed, and is_megatron_ranks() those of Megatron's
// format "torch". automesh refuses both formats, because no file describes how their tensors are
// sharded.
//
//   latest, global_step100/, mp_rank_*_model_states.pt   DeepSpeed
//   mp_rank_00/model_optim_rng.pt                        Megatron's "torch": a pickle per rank
bool is_deepspeed(const fs::path& path) {
  if (has_entry(path, "*mp_rank_*_model_states.pt")) return true;
  if (has_entry(path, "*zero_pp_rank_*_optim_states.pt")) return true;
  return fs::is_regular_file(path / "latest") && has_entry(path, "global_step*");
}

bool is_megatron_ranks(const fs::path& path) {
  if (!has_entry(path, "mp_rank_*")) return false;
  return std::any_of(fs::directory_iterator(path), fs::directory_iterator(),
                     [](const fs::directory_entry& entry) {
                       return fs::is_regular_file(entry.path() / "model_optim_rng.pt");
                     });
}

Source refuse_deepspeed(const fs::path& path, OnDamage /*damage*/) {
  throw Error(ErrorKind::kFormat,
              cat(path.string(), ": a checkpoint of DeepSpeed, which is not supported"),
              "convert the weights to safetensors with DeepSpeed's script in that folder: "
              "`python zero_to_fp32.py FOLDER OUT --safe_serialization`");
}

Source refuse_megatron_ranks(const fs::path& path, OnDamage /*damage*/) {
  throw Error(ErrorKind::kFormat,
              cat(path.string(),
                  ": Megatron saved this checkpoint in the format \"torch\" (one pickle per rank), "
                  "which is not supported"),
              "load it with Megatron and save it with --ckpt-format torch_dist");
}

// Opens a checkpoint of am-run. If am-run's own index is damaged and `damage` is kReport, reads
// torch.distributed.checkpoint's file `.metadata` instead, which describes the same tensors. The
// result's damage() then includes the damaged index.
Source open_checkpoint(const fs::path& folder, OnDamage damage) {
  if (damage == OnDamage::kRefuse || !stored::is_dcp_source(folder)) {
    return stored::open_automesh_source(folder, damage);
  }
  try {
    return stored::open_automesh_source(folder, damage);
  } catch (const Error& error) {
    std::vector<stored::StoredProblem> known = {
        stored::file_problem(folder, run_folder::kInfoFile, error)};
    return stored::open_dcp_source(folder, std::move(known));
  }
}

bool is_megatron_parent(const fs::path& path) {
  return fs::is_directory(path) && fs::is_regular_file(path / kMegatronNewest);
}

Source open_megatron_parent(const fs::path& path, OnDamage damage) {
  const fs::path newest = newest_of_megatron(path);
  if (is_tensor_source(newest) && !is_megatron_parent(newest)) {
    return open_tensor_source(newest, damage);
  }
  throw Error(ErrorKind::kFormat,
              cat((path / kMegatronNewest).string(), ": names ", newest.filename().string(),
                  ", which is not a complete checkpoint"),
              "open another iter_ folder instead");
}

bool is_megatron_without_metadata(const fs::path& path) {
  return fs::is_directory(path) && !stored::is_dcp_source(path) && !sharded_backend(path).empty();
}

Source refuse_megatron_without_metadata(const fs::path& path, OnDamage /*damage*/) {
  const std::string backend = sharded_backend(path);
  if (backend == "torch_dist") {
    throw Error(ErrorKind::kFormat,
                cat(path.string(), ": a checkpoint of Megatron, but its file ",
                    formats::kDcpMetadataFile, " is missing"),
                "fetch the folder again, including files whose names begin with a dot");
  }
  throw Error(ErrorKind::kFormat,
              cat(path.string(), ": Megatron saved this checkpoint in the format \"", backend,
                  "\", which is not supported"),
              "load it with Megatron and save it with --ckpt-format torch_dist");
}

bool is_olmo_folder(const fs::path& path) { return stored::is_dcp_source(path / kOlmoStates); }

Source open_olmo_folder(const fs::path& path, OnDamage damage) {
  return open_dcp_folder(path / kOlmoStates, damage);
}

bool is_shards_folder(const fs::path& path) {
  return fs::is_directory(path) && stored::is_hf_shards_source(shards_of(path));
}

Source open_shards_folder(const fs::path& path, OnDamage damage) {
  return stored::open_hf_shards_source(shards_of(path), {path, beside(path)}, damage);
}

Source open_shards_file(const fs::path& path, OnDamage damage) {
  return stored::open_hf_shards_source(path, {path.parent_path()}, damage);
}

// Opens safetensors weights with the hub's names. If the folder also contains optimizer states
// (optimizer.pt or optimizer.bin), the result includes these states.
Source open_hub_weights(const fs::path& path, OnDamage damage) {
  Source weights = stored::open_hf_source(path, damage);
  if (!fs::is_directory(path)) return weights;
  const auto states = numbered_states_file(path);
  return states ? with_numbered_states(std::move(weights), *states) : std::move(weights);
}

struct Format {
  bool (*matches)(const fs::path& path);
  Source (*open)(const fs::path& path, OnDamage damage);
};

// All formats except plain torch.save files, in the order in which they are tried; the first match
// is used. Plain torch.save files are tried last, because their names are arbitrary.
//
// The following table lists the formats of training frameworks and of PyTorch, in another order
// than kNamedFormats: the files by which a checkpoint is recognised, the format, and automesh's
// name of the format.
//
//   metadata.json with a sharded_backend           Megatron's torch_dist: "megatron"
//   .metadata with model.module.decoder.* or
//     optimizer.state.module.module.module.*       Megatron-FSDP's fsdp_dtensor: "megatron-fsdp"
//   .metadata that OLMo-core has written;
//     model_and_optim/.metadata                    OLMo-core: "olmo"
//   .metadata with train_state.step, or
//     torchtitan's names of parameters             torchtitan: "torchtitan"
//   model/ with weights, optim/.metadata or
//     config.yaml or losses.json beside it         NeMo AutoModel: "automodel"
//   pytorch_model_fsdp_0/, optimizer_0/ beside it,
//     or pytorch_model_fsdp_0_rank*.bin            accelerate, transformers' Trainer: "accelerate"
//   safetensors with optimizer.pt or .bin beside   the same writers without FSDP: "accelerate"
//   metadata.pkl that names ranks' files, or
//     model_0.pt and model_1.pt                    torch_checkpointing: "torch-checkpointing"
//   .metadata with anything else                   PyTorch's own: "dcp"
//   shard-*-model-*-of-*.safetensors with
//     DCP_SHARDING_INFO                            PyTorch's for the hub: "dcp-huggingface"
//   mp_rank_*/, global_step*/, ...                 not read: DeepSpeed, Megatron's "torch"
//
// Tensors of the first four formats in the table get the hub's names if a config.json describes the
// model (mapped_source.h).
constexpr std::array kNamedFormats = {
    Format{run_folder::is_checkpoint, open_checkpoint},
    Format{is_megatron_parent, open_megatron_parent},
    Format{is_megatron_without_metadata, refuse_megatron_without_metadata},
    Format{is_olmo_folder, open_olmo_folder},
    Format{is_deepspeed, refuse_deepspeed},
    Format{is_megatron_ranks, refuse_megatron_ranks},
    Format{is_automodel_folder, open_automodel_folder},
    Format{is_accelerate_folder, open_accelerate_folder},
    Format{is_torch_checkpointing, open_torch_checkpointing},
    Format{stored::is_dcp_source, open_dcp_folder},
    Format{is_shards_folder, open_shards_folder},
    Format{stored::is_hf_shards_source, open_shards_file},
    Format{stored::is_hf_source, open_hub_weights},
};

const Format* named_format(const fs::path& path) {
  const auto* found = std::find_if(kNamedFormats.begin(), kNamedFormats.end(),
                                   [&](const Format& each) { return each.matches(path); });
  return found == kNamedFormats.end() ? nullptr : found;
}

}  // namespace

bool is_tensor_source(const fs::path& path) {
  return named_format(path) != nullptr || stored::is_torch_source(path);
}

bool is_pickled_source(const fs::path& path) {
  return named_format(path) == nullptr && stored::is_torch_source(path);
}

std::unique_ptr<stored::TensorSource> open_tensor_source(const fs::path& path, OnDamage damage) {
  if (!fs::exists(path)) {
    throw Error(ErrorKind::kIo, cat(path.string(), ": no such file or folder"));
  }
  if (const Format* format = named_format(path)) return format->open(path, damage);
  if (stored::is_torch_source(path)) return stored::open_torch_source(path, damage);
  throw Error(ErrorKind::kFormat, cat(path.string(), ": holds no weights that can be opened"),
              "expected *.safetensors or pytorch_model.bin (or a folder with them), a folder of "
              "torch.distributed.checkpoint, or "
              "a checkpoint folder step-N of am-run");
}

}  // namespace am::frameworks
