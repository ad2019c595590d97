#include "am/checkpoint/export_dcp.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "am/base/direct_file.h"
#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/read_ahead.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/checkpoint/block_buffer.h"
#include "am/checkpoint/export_folder.h"
#include "am/checkpoint/export_optimizer.h"
#include "am/checkpoint/filled_tensor.h"
#include "am/checkpoint/megatron_files.h"
#include "am/checkpoint/torchtitan_values.h"
#include "am/formats/dcp_metadata.h"
#include "am/formats/torch_archive.h"
#include "am/formats/torch_slice.h"
#include "am/frameworks/master_weights.h"
#include "am/run_folder/checkpoint_info.h"
#include "am/run_folder/shard_index.h"
#include "am/stored/hub_config.h"
#include "am/stored/state_keys.h"
#include "am/tensor/dtype.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

namespace {

// A key under which a tensor is stored, as a name and as a path in the checkpoint's nested dicts.
struct Key {
  std::string name;
  formats::DcpPath path;
};

// A tensor to write, its keys in the checkpoint, and its location in the data file.
struct Planned {
  FilledTensor tensor;
  std::vector<Key> keys;
  at::ScalarType dtype = at::kFloat;
  uint64_t offset = 0;  // offset of the torch.save archive in the file, in bytes
  uint64_t length = 0;  // size of the torch.save archive, in bytes

  int64_t row_bytes() const {
    return tensor.row_numel() * static_cast<int64_t>(c10::elementSize(dtype));
  }
  formats::TorchSlice slice() const {
    return formats::tensor_slice(tensor::dtype_name(dtype), tensor.shape, offset);
  }
};

// Everything that an export writes.
struct ExportPlan {
  std::vector<Planned> tensors;
  OptimizerValues values;
  std::optional<MegatronOptimizer> megatron;
  std::optional<int64_t> step;  // number of the training step, if known
  std::vector<std::string> notes;
};

bool is_for(const DcpExport& options, const frameworks::NameTable& table) {
  return options.table == &table;
}

Planned plan_parameter(FilledTensor tensor, const DcpExport& options) {
  Planned planned;
  planned.dtype = options.dtype.value_or(tensor::scalar_type(tensor.dtype));
  // PyTorch and OLMo-core save parameters in a nested dict "model"; torchtitan and Megatron save a
  // flat dict.
  const bool nested = options.table == nullptr || is_for(options, frameworks::olmo_table());
  if (nested) {
    planned.keys.push_back({cat("model.", tensor.name), stored::parameter_path(tensor.name)});
  } else {
    planned.keys.push_back({tensor.name, {tensor.name}});
  }
  planned.tensor = std::move(tensor);
  return planned;
}

// Returns the keys under which the exported checkpoint stores the optimizer.
OptimizerKeys keys_for(const DcpExport& options) {
  if (options.table == nullptr) return {};
  // torchtitan and OLMo-core save the flattened form (optimizer_values.h), in which each parameter
  // has its own settings.
  const bool titan = is_for(options, frameworks::torchtitan_table());
  return {titan ? "optimizer" : "optim", false, false};
}

Planned plan_state(ExportedState state, const DcpExport& options) {
  Planned planned;
  planned.dtype = tensor::scalar_type(state.tensor.dtype);
  if (is_for(options, frameworks::megatron_table())) {
    const std::string name = cat("optimizer.state.", state.state, ".", state.tensor.name);
    planned.keys.push_back({name, {name}});
  } else {
    const OptimizerKeys keys = keys_for(options);
    planned.keys.push_back({keys.state_name(state.tensor.name, state.state),
                            keys.state_path(state.tensor.name, state.state)});
  }
  planned.tensor = std::move(state.tensor);
  return planned;
}

frameworks::NameMap name_map_of(const frameworks::NameTable& table,
                                const stored::TensorSource& source) {
  stored::HubConfig config = stored::hub_config_of(source);
  if (!config.config) {
    throw Error(
        ErrorKind::kFormat,
        cat(source.path().string(), ": the export needs the model's config.json: ", config.problem),
        cat("put the config.json of a supported model into the folder of the weights: the order of "
            "rows in ",
            table.framework, "'s tensors depends on the model"));
  }
  const std::string type = config.config->model_type;
  frameworks::NameMap names(table, *std::move(config.config));
  if (names.knows_model()) return names;
  throw Error(ErrorKind::kFormat,
              cat(source.path().string(), ": ", table.framework, "'s tensor names for model_type ",
                  type, " are not known"),
              cat("known model types: ", table.types));
}

// Adds the float32 master weights that Megatron's optimizer stores beside its states. Each master
// weight has two keys, because two of Megatron's sharding types name it differently. A parameter
// that is written as float32 is its own master weight: its tensor also gets the two keys.
void add_masters(ExportPlan& plan, const ExportedOptimizer& optimizer) {
  std::set<std::string> trained;
  for (const ValueGroup& group : optimizer.groups) {
    trained.insert(group.names.begin(), group.names.end());
  }
  std::vector<Planned> masters;
  for (Planned& parameter : plan.tensors) {
    if (!trained.contains(parameter.tensor.name)) continue;
    std::vector<Key> keys;
    for (const char* state : {"param", "fp32_param"}) {
      const std::string name = cat("optimizer.state.", state, ".", parameter.tensor.name);
      keys.push_back({name, {name}});
    }
    if (parameter.dtype == at::kFloat) {
      parameter.keys.insert(parameter.keys.end(), keys.begin(), keys.end());
    } else {
      masters.push_back({parameter.tensor, std::move(keys)});
    }
  }
  std::move(masters.begin(), masters.end(), std::back_inserter(plan.tensors));
}

// Returns a note for the user if the parameters have different settings. torchtitan has only one
// group of parameters, and PyTorch loads the settings of the first parameter for the whole group.
std::optional<std::string> note_of_one_group(const ExportedOptimizer& optimizer) {
  if (optimizer.groups.size() < 2) return std::nullopt;
  constexpr std::string_view kFirst = "tok_embeddings.weight";
  const auto group =
      std::find_if(optimizer.groups.begin(), optimizer.groups.end(), [&](const ValueGroup& each) {
        return std::find(each.names.begin(), each.names.end(), kFirst) != each.names.end();
      });
  if (group == optimizer.groups.end()) return std::nullopt;
  const auto number = [&](const char* name) {
    return format_general(formats::number_setting(group->settings, name).value_or(0.0), 6);
  };
  return cat("the parameters have different settings, but torchtitan uses those of ", kFirst,
             " for all: lr ", number("lr"), ", weight_decay ", number("weight_decay"));
}

// Returns the number of the training step at which a checkpoint was saved; nullopt if unknown.
std::optional<int64_t> step_of(const stored::TensorSource& source) {
  if (!run_folder::is_checkpoint(source.path())) return source.step();
  return run_folder::read_checkpoint_info(source.path()).step;
}

void add_optimizer(ExportPlan& plan, const stored::TensorSource& source, const DcpExport& options) {
  std::vector<FilledTensor> parameters;
  for (const Planned& each : plan.tensors) parameters.push_back(each.tensor);
  ExportedOptimizer optimizer = options.table == nullptr
                                    ? stored_optimizer(source)
                                    : framework_optimizer(source, parameters, *options.table);
  if (const auto updates = optimizer.common_steps(); updates && !plan.step) {
    plan.step = static_cast<int64_t>(*updates);
  }
  if (is_for(options, frameworks::megatron_table())) {
    plan.megatron = megatron_optimizer(source.path(), parameters, optimizer);
    if (run_folder::is_checkpoint(source.path())) {
      const auto info = run_folder::read_checkpoint_info(source.path());
      plan.megatron->samples = info.samples.value_or(0);
    }
    add_masters(plan, optimizer);
  } else {
    plan.values = group_values(optimizer.groups, keys_for(options));
  }
  plan.notes = std::move(optimizer.notes);
  if (is_for(options, frameworks::torchtitan_table())) {
    add_torchtitan_trainer(plan.values, optimizer, plan.step.value_or(0));
    if (auto note = note_of_one_group(optimizer)) plan.notes.push_back(*std::move(note));
  }
  for (ExportedState& state : optimizer.states) {
    plan.tensors.push_back(plan_state(std::move(state), options));
  }
}

ExportPlan plan_all(const stored::TensorSource& source, const DcpExport& options) {
  ExportPlan plan;
  plan.step = step_of(source);
  if (options.table != nullptr) {
    for (FilledTensor& tensor : fill_all(name_map_of(*options.table, source), source)) {
      plan.tensors.push_back(plan_parameter(std::move(tensor), options));
    }
  } else {
    for (const stored::StoredTensor& tensor : source.tensors()) {
      plan.tensors.push_back(plan_parameter(filled_by(tensor), options));
    }
  }
  if (options.optimizer) add_optimizer(plan, source, options);
  uint64_t position = 0;
  for (Planned& each : plan.tensors) {
    if (formats::torch_dtype_size(tensor::dtype_name(each.dtype)) == 0) {
      throw Error(ErrorKind::kFormat,
                  cat(source.path().string(), ": ", each.tensor.name, " is ",
                      tensor::dtype_name(each.dtype),
                      ", a dtype that torch.distributed.checkpoint cannot store"));
    }
    const formats::SlicePlace place =
        formats::place_slice(tensor::dtype_name(each.dtype), each.tensor.shape, position);
    each.offset = place.offset;
    each.length = place.length();
    position = place.end;
  }
  return plan;
}

// Rows of a tensor that are read, converted and written together.
struct Block {
  const Planned* planned;
  mesh::Extent rows;
};

std::vector<Block> blocks_of(const std::vector<Planned>& all) {
  std::vector<Block> blocks;
  for (const Planned& planned : all) {
    const int64_t rows = planned.tensor.rows();
    if (rows * planned.row_bytes() == 0) continue;
    const int64_t most = std::clamp<int64_t>(kBlockBytes / planned.row_bytes(), 1, rows);
    for (int64_t row = 0; row < rows; row += most) {
      blocks.push_back({&planned, {row, std::min(most, rows - row)}});
    }
  }
  return blocks;
}

// Appends the archives of the optimizer's values to the data file. Adds the values' entries to
// `metadata`.
void write_values(DirectFile& file, const OptimizerValues& values, formats::DcpMetadata& metadata) {
  std::vector<formats::DcpSlice> slices;
  for (const std::string& archive : values.slices) {
    slices.push_back({0, file.position(), archive.size()});
    file.write(archive);
  }
  append_values(metadata, values, slices);
}

void write_data(const fs::path& folder, const stored::TensorSource& source, const ExportPlan& plan,
                const std::function<void()>& between) {
  const std::vector<Planned>& all = plan.tensors;
  const std::string name = run_folder::data_file_name(0);
  uint64_t size = all.empty() ? 0 : all.back().offset + all.back().length;
  for (const std::string& archive : plan.values.slices) size += archive.size();
  DirectFile file(folder / name, size);
  formats::DcpMetadata metadata;
  metadata.files.push_back(name);
  const std::vector<Block> blocks = blocks_of(all);
  ReadAhead ahead(blocks.size(), [&](size_t i) {
    will_read_filled_rows(source, blocks[i].planned->tensor, blocks[i].rows);
  });
  BlockBuffer buffer;
  size_t next = 0;
  for (const Planned& each : all) {
    const formats::TorchSlice slice = each.slice();
    file.write(slice.before);
    for (; next < blocks.size() && blocks[next].planned == &each; ++next) {
      if (between) between();
      ahead.reached(next);
      const mesh::Extent& rows = blocks[next].rows;
      const at::Tensor taken = buffer.block({rows.size, each.tensor.row_numel()}, each.dtype);
      read_filled_rows(source, each.tensor, rows, taken);
      file.write(bytes_of(taken));
    }
    file.write(slice.after);
    AM_ASSERT(file.position() == each.offset + each.length, "the file has an unplanned size");
    const Shape& shape = each.tensor.shape;
    for (const Key& key : each.keys) {
      metadata.tensors.push_back(
          {key.name,
           key.path,
           tensor::dtype_name(each.dtype),
           shape,
           {{Shape(shape.size(), 0), shape, {0, each.offset, each.length}}}});
    }
  }
  write_values(file, plan.values, metadata);
  file.close();
  write_file_atomically(folder / formats::kDcpMetadataFile, formats::dcp_metadata_bytes(metadata));
}

}  // namespace

std::vector<std::string> export_dcp(const fs::path& folder, const stored::TensorSource& from,
                                    const DcpExport& options,
                                    const std::function<void()>& between) {
  refuse_adapters(from);
  require_values(from, options.dtype);
  const auto masters = options.optimizer ? frameworks::with_master_weights(from) : nullptr;
  const stored::TensorSource& source = masters ? *masters : from;
  ExportPlan plan = plan_all(source, options);
  const fs::path partial = begin_export(folder);
  try {
    // OLMo-core loads tensors from the subfolder "model_and_optim". The export also writes the
    // Hugging Face config.json to this subfolder, because OLMo-core has a config.json of another
    // format in the parent folder.
    const fs::path data =
        is_for(options, frameworks::olmo_table()) ? partial / "model_and_optim" : partial;
    fs::create_directories(data);
    write_data(data, source, plan, between);
    if (is_for(options, frameworks::megatron_table())) {
      write_megatron_files(data, plan.step, plan.megatron);
    }
    const fs::path config = source.config_file();
    if (!config.empty()) {
      const std::string text = read_file(config);
      write_file_atomically(data / "config.json",
                            find_codes(source) != nullptr
                                ? text
                                : config_with_dtype(text, config, plan.tensors[0].dtype));
      copy_tokenizer(data, folder_of(config), options.tokenizer);
    }
    sync_folder(data);
    finish_export(folder);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    throw;
  }
  return std::move(plan.notes);
}

}  // namespace am::checkpoint
