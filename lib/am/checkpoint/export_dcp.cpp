#include "am/checkpoint/export_dcp.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "am/base/direct_file.h"
#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/read_ahead.h"
#include "am/base/text.h"
#include "am/checkpoint/block_buffer.h"
#include "am/checkpoint/export_folder.h"
#include "am/checkpoint/filled_tensor.h"
#include "am/formats/dcp_metadata.h"
#include "am/formats/pickle_writer.h"
#include "am/formats/torch_archive.h"
#include "am/formats/torch_slice.h"
#include "am/run_folder/shard_index.h"
#include "am/stored/hub_config.h"
#include "am/stored/state_keys.h"
#include "am/tensor/dtype.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

namespace {

// A tensor to write, its key in the checkpoint, and its location in the data file.
struct Planned {
  FilledTensor tensor;
  std::string key;
  formats::DcpPath path;
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

Planned plan_parameter(FilledTensor tensor, const DcpExport& options) {
  Planned planned;
  planned.dtype = options.dtype.value_or(tensor::scalar_type(tensor.dtype));
  // PyTorch and OLMo-core save parameters in a nested dict "model"; torchtitan and Megatron save a
  // flat dict.
  const bool nested = options.table == nullptr || options.table == &frameworks::olmo_table();
  planned.key = nested ? cat("model.", tensor.name) : tensor.name;
  planned.path = nested ? stored::parameter_path(tensor.name) : formats::DcpPath{tensor.name};
  planned.tensor = std::move(tensor);
  return planned;
}

Planned plan_state(const stored::StoredTensor& state) {
  Planned planned;
  planned.tensor = filled_by(state);
  planned.key = state.name;
  planned.path = stored::state_path(state.name);
  planned.dtype = tensor::scalar_type(state.dtype);
  return planned;
}

frameworks::NameMap name_map_of(const frameworks::NameTable& table,
                                const stored::TensorSource& source) {
  stored::HubConfig config = stored::find_hub_config({source.config_file().parent_path()});
  if (!config.config) {
    throw Error(
        ErrorKind::kFormat,
        cat(source.path().string(), ": the export needs the model's config.json: ", config.problem),
        cat("put the model's config.json into that folder: the order of rows in ", table.framework,
            "'s tensors depends on the model"));
  }
  const std::string type = config.config->model_type;
  frameworks::NameMap names(table, *std::move(config.config));
  if (names.knows_model()) return names;
  throw Error(ErrorKind::kFormat,
              cat(source.path().string(), ": ", table.framework, "'s tensor names for model_type ",
                  type, " are not known"),
              cat("known model types: ", table.types));
}

std::vector<Planned> plan_all(const stored::TensorSource& source, const DcpExport& options) {
  std::vector<Planned> all;
  if (options.table != nullptr) {
    for (FilledTensor& tensor : fill_all(name_map_of(*options.table, source), source)) {
      all.push_back(plan_parameter(std::move(tensor), options));
    }
  } else {
    for (const stored::StoredTensor& tensor : source.tensors()) {
      all.push_back(plan_parameter(filled_by(tensor), options));
    }
  }
  if (options.optimizer) {
    for (const stored::StoredTensor& state : source.optimizer_tensors()) {
      if (starts_with(state.name, run_folder::kOptimizerPrefix)) all.push_back(plan_state(state));
    }
  }
  uint64_t position = 0;
  for (Planned& each : all) {
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
  return all;
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

void write_data(const fs::path& folder, const stored::TensorSource& source,
                const std::vector<Planned>& all, const std::function<void()>& between) {
  const std::string name = run_folder::data_file_name(0);
  const uint64_t size = all.empty() ? 0 : all.back().offset + all.back().length;
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
    AM_ASSERT(file.position() == each.offset + each.length, "a file that was planned otherwise");
    const Shape& shape = each.tensor.shape;
    metadata.tensors.push_back({each.key,
                                each.path,
                                tensor::dtype_name(each.dtype),
                                shape,
                                {{Shape(shape.size(), 0), shape, {0, each.offset, each.length}}}});
  }
  file.close();
  write_file_atomically(folder / formats::kDcpMetadataFile, formats::dcp_metadata_bytes(metadata));
}

// Writes common.pt and metadata.json, which Megatron's loader requires.
void write_megatron_files(const fs::path& folder, const std::optional<int64_t>& step) {
  formats::PickleWriter common;
  common.empty_dict();
  common.open_mark();
  common.text("checkpoint_version");
  common.real(3.0);
  if (step) {
    common.text("iteration");
    common.integer(*step);
  }
  common.close_dict_items();
  write_file_atomically(folder / "common.pt", formats::value_slice(std::move(common).finish()));
  const Json metadata = {{"sharded_backend", "torch_dist"},
                         {"sharded_backend_version", 1},
                         {"common_backend", "torch"},
                         {"common_backend_version", 1}};
  write_file_atomically(folder / "metadata.json", metadata.dump());
}

}  // namespace

void export_dcp(const fs::path& folder, const stored::TensorSource& source,
                const DcpExport& options, const std::function<void()>& between) {
  refuse_adapters(source);
  require_values(source, options.dtype);
  const std::vector<Planned> all = plan_all(source, options);
  const fs::path partial = begin_export(folder);
  try {
    // OLMo-core loads tensors from the subfolder "model_and_optim". The Hugging Face config.json is
    // written there too, because OLMo-core has a config.json of another format in the folder above.
    const fs::path data =
        options.table == &frameworks::olmo_table() ? partial / "model_and_optim" : partial;
    fs::create_directories(data);
    write_data(data, source, all, between);
    if (options.table == &frameworks::megatron_table()) write_megatron_files(data, source.step());
    const fs::path config = source.config_file();
    if (!config.empty()) {
      const std::string text = read_file(config);
      write_file_atomically(
          data / "config.json",
          find_codes(source) != nullptr ? text : config_with_dtype(text, config, all[0].dtype));
      copy_tokenizer(data, folder_of(config), options.tokenizer);
    }
    sync_folder(data);
    finish_export(folder);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    throw;
  }
}

}  // namespace am::checkpoint
