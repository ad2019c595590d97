// Tensors at rest as a folder of torch.distributed.checkpoint, which PyTorch loads without this
// library, or as the weights of a framework's checkpoint.
//
//   export_dcp("out", *source, {.table = &torchtitan_table(), .dtype = at::kBFloat16});
//
// One process writes one file front to back; a few MiB of rows are in memory at a time, and a fused
// matrix is never put together.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "am/stored/dialects/dialect.h"
#include "am/stored/tensor_source.h"

namespace am::checkpoint {

struct DcpExport {
  // Whose names and rows; null: as they are, "model.NAME".
  const stored::DialectTable* table = nullptr;
  std::optional<at::ScalarType> dtype;   // of parameters; nothing: as stored
  std::filesystem::path tokenizer = {};  // of the model's texts, where it is not beside the config
  bool optimizer = false;  // "optim.state.NAME.exp_avg" too, as stored; not for frameworks
};

// The folder appears whole or not at all. `between` is called between blocks of rows: what it
// throws ends the export. Throws Error(kFormat) that lists what a framework has no place for.
void export_dcp(const std::filesystem::path& folder, const stored::TensorSource& source,
                const DcpExport& options, const std::function<void()>& between = {});

}  // namespace am::checkpoint
