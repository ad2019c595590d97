// Exports a checkpoint's tensors as a checkpoint of torch.distributed.checkpoint, which PyTorch
// loads without this library, or as a checkpoint of another framework.
//
//   export_dcp("out", *source, {.table = &frameworks::torchtitan_table(), .dtype = at::kBFloat16});
//
// One process writes one data file sequentially, in blocks of rows (block_buffer.h). A tensor that
// does not fit in one block is therefore never in memory as a whole. The rows of a fused matrix are
// read directly from the tensors that the matrix contains.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "am/frameworks/name_map.h"
#include "am/stored/tensor_source.h"

namespace am::checkpoint {

struct DcpExport {
  // Name table of the framework whose names and row order are written. Null: the export has names
  // "model.NAME" and the stored row order.
  const frameworks::NameTable* table = nullptr;
  std::optional<at::ScalarType> dtype;   // dtype of the parameters; empty: as stored
  std::filesystem::path tokenizer = {};  // file or folder; empty: the tokenizer beside the config
  // Whether to write the optimizer too: the number of updates, the settings of param_groups, and
  // the states in their stored dtype. Without a table, names are like "optim.state.NAME.exp_avg"
  // and "optim.param_groups.NAME.lr". If true, and the source has a master weight for a parameter
  // (frameworks/master_weights.h), the parameter is written from the master weight.
  bool optimizer = false;
};

// Writes the tensors of `source` to `folder`, which is created completely or not at all. Calls
// `between` before each block of rows; an exception from `between` ends the export. Throws
// Error(kFormat) with a list of the tensors for which the framework has no names, and the errors of
// export_folder.h and export_optimizer.h. Returns notes for the user about the optimizer's
// settings.
std::vector<std::string> export_dcp(const std::filesystem::path& folder,
                                    const stored::TensorSource& source, const DcpExport& options,
                                    const std::function<void()>& between = {});

}  // namespace am::checkpoint
