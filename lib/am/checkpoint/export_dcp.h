// Exports a checkpoint's tensors as a folder of torch.distributed.checkpoint, which PyTorch loads
// without this library, or as a checkpoint of another framework.
//
//   export_dcp("out", *source, {.table = &frameworks::torchtitan_table(), .dtype = at::kBFloat16});
//
// One process writes one file sequentially. Only one block of rows (block_buffer.h) is in memory at
// a time. A fused matrix is written directly from the tensors of which it consists.
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
  // The framework whose names and row order are written. Null: names "model.NAME", with the stored
  // row order.
  const frameworks::NameTable* table = nullptr;
  std::optional<at::ScalarType> dtype;   // dtype of the parameters; empty: as stored
  std::filesystem::path tokenizer = {};  // file or folder; empty: the tokenizer beside the config
  // Whether to write the optimizer too: the number of updates, the settings of param_groups, and
  // the states in their stored dtype. Without a table, names are like
  // "optim.state.NAME.exp_avg" and "optim.param_groups.NAME.lr". If true, parameters that have a
  // master weight in the source (frameworks/master_weights.h) are written from the master weight.
  bool optimizer = false;
};

// Writes the tensors of `source` to `folder`, which is created completely or not at all. Calls
// `between` between blocks of rows; an exception from `between` ends the export. Throws
// Error(kFormat) with a list of the tensors for which the framework has no names, if there are any,
// and the errors of export_optimizer.h. Returns notes for the user about the optimizer's settings.
std::vector<std::string> export_dcp(const std::filesystem::path& folder,
                                    const stored::TensorSource& source, const DcpExport& options,
                                    const std::function<void()>& between = {});

}  // namespace am::checkpoint
