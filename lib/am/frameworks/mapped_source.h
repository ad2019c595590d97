// Presents the parameters and optimizer states of another framework's checkpoint with the names and
// row order of the Hugging Face hub.
//
//   auto source = as_hub(stored::open_dcp_source(folder), torchtitan_table(), {folder});
//   source->tensors();            // "model.layers.0.self_attn.q_proj.weight", ...
//   source->optimizer_tensors();  // "optim.state.model.layers.0.self_attn.q_proj.weight.exp_avg"
//
// Rows that are stored in the hub's order are read without a buffer. Rows that are stored in
// another order are read in pieces of one head or a few heads (RowMap::pieces()), through a buffer
// for one piece. Tensors that are not in the name table keep their names.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "am/frameworks/name_map.h"
#include "am/frameworks/trainer_facts.h"
#include "am/stored/tensor_source.h"

namespace am::frameworks {

// Returns a source with the hub's names. `facts`: the training step, which step() of the result
// returns, and a remark, which is a part of note(). `config_folders`: folders that may contain the
// model's config.json, the most likely folder first. Tensors keep their stored names and rows if
// there is no config.json, or if the config describes another model or a model type that is not in
// the table; note() then contains the reason. Throws Error(kFormat) if two tensors would get equal
// names.
std::unique_ptr<stored::TensorSource> as_hub(
    std::unique_ptr<stored::TensorSource> stored, const NameTable& table,
    const std::vector<std::filesystem::path>& config_folders, TrainerFacts facts = {});

}  // namespace am::frameworks
