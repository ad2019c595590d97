// Presents tensors saved by another framework with the hub's names and rows: parameters and their
// optimizer states.
//
//   auto source = as_hub(stored::open_dcp_source(folder), torchtitan_table(), {folder});
//   source->tensors();            // "model.layers.0.self_attn.q_proj.weight", ...
//   source->optimizer_tensors();  // "optim.state.model.layers.0.self_attn.q_proj.weight.exp_avg"
//
// A box is read directly from its stored rows, a head or a contiguous range of rows at a time,
// without assembling the stored tensor. Names that are not in the table are unchanged.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "am/frameworks/name_map.h"
#include "am/frameworks/trainer_facts.h"
#include "am/stored/tensor_source.h"

namespace am::frameworks {

// `facts` are included in the result. `config_folders`: folders that may contain the model's
// config.json, the most likely first. Without a config, or if it describes another model, all
// tensors are listed as stored, and note() gives the reason. Throws Error(kFormat) if two tensors
// map to one name.
std::unique_ptr<stored::TensorSource> as_hub(
    std::unique_ptr<stored::TensorSource> stored, const NameTable& table,
    const std::vector<std::filesystem::path>& config_folders, TrainerFacts facts = {});

}  // namespace am::frameworks
