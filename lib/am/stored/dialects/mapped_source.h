// Tensors that another framework has saved, under the hub's names and with its rows: parameters,
// and what an optimizer keeps of each.
//
//   auto source = as_hub(open_dcp_source(folder), torchtitan_table(), {folder});
//   source->tensors();            // "model.layers.0.self_attn.q_proj.weight", ...
//   source->optimizer_tensors();  // "optim.state.model.layers.0.self_attn.q_proj.weight.exp_avg"
//
// A box is read from the rows that it has, a head or a run of rows at a time; what is stored as one
// tensor is never put together. Names that the table does not have stay as they are.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "am/stored/dialects/dialect.h"
#include "am/stored/dialects/trainer_facts.h"
#include "am/stored/tensor_source.h"

namespace am::stored {

// `facts` are told with it. `config_folders`: where the model's config.json may lie, the likeliest
// first. Without it, or when it is of another model, all is shown as it is stored, and note() says
// why. Throws Error(kFormat) when two tensors come out under one name.
std::unique_ptr<TensorSource> as_hub(std::unique_ptr<TensorSource> stored,
                                     const DialectTable& table,
                                     const std::vector<std::filesystem::path>& config_folders,
                                     TrainerFacts facts = {});

}  // namespace am::stored
