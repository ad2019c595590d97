// Presents the parameters and optimizer states of another framework's checkpoint with the names and
// row order of the Hugging Face hub.
//
//   auto source = as_hub(stored::open_dcp_source(folder), torchtitan_table(), {folder});
//   source->tensors();            // "model.layers.0.self_attn.q_proj.weight", ...
//   source->optimizer_tensors();  // "optim.state.model.layers.0.self_attn.q_proj.weight.exp_avg"
//
// A box of a tensor is read directly from the stored rows, in pieces of one contiguous range of
// rows or of a few heads (RowMap::pieces()); at most one piece is buffered at a time. Tensors that
// are not in the name table keep their names.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "am/frameworks/name_map.h"
#include "am/frameworks/trainer_facts.h"
#include "am/stored/tensor_source.h"

namespace am::frameworks {

// Returns a source with the hub's names. `facts`: the trainer's step and a note, which step() and
// note() of the result return. `config_folders`: folders that may contain the model's config.json,
// the most likely first. Without a config.json, or if it describes another model or a model type
// that is not in the table, tensors keep their stored names and rows, and note() gives the reason.
// Throws Error(kFormat) if two tensors would get the same name.
std::unique_ptr<stored::TensorSource> as_hub(
    std::unique_ptr<stored::TensorSource> stored, const NameTable& table,
    const std::vector<std::filesystem::path>& config_folders, TrainerFacts facts = {});

}  // namespace am::frameworks
