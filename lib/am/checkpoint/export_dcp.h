// Exports stored tensors as a folder of torch.distributed.checkpoint, which PyTorch loads without
// this library, or as the weights of a framework's checkpoint.
//
//   export_dcp("out", *source, {.table = &frameworks::torchtitan_table(), .dtype = at::kBFloat16});
//
// One process writes one file sequentially; only a few MiB of rows are in memory at a time, and
// fused matrices are never assembled.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "am/frameworks/name_map.h"
#include "am/stored/tensor_source.h"

namespace am::checkpoint {

struct DcpExport {
  // Framework for whose names and row order to write; null: rows as stored, under "model.NAME".
  const frameworks::NameTable* table = nullptr;
  std::optional<at::ScalarType> dtype;   // of parameters; absent: as stored
  std::filesystem::path tokenizer = {};  // file or folder; empty: beside the config
  // Also writes optimizer states as stored, "optim.state.NAME.exp_avg"; only if `table` is null.
  bool optimizer = false;
};

// Creates the folder completely or not at all. Calls `between` between blocks of rows; an exception
// from it ends the export. Throws Error(kFormat) listing the tensors for which a framework has no
// name.
void export_dcp(const std::filesystem::path& folder, const stored::TensorSource& source,
                const DcpExport& options, const std::function<void()>& between = {});

}  // namespace am::checkpoint
