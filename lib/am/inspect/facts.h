// Facts that several views present alike: titles, totals, the mesh, the tokenizer of a plan.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/base/json.h"
#include "am/config/plan.h"
#include "am/inspect/tensor_catalog.h"

namespace am::inspect {

// Returns the first error's message with its location, in one line; empty without errors.
std::string first_error(const Diagnostics& found);

// "dp_shard 2, tp 2": axes with more than one rank; empty for one rank.
std::string mesh_text(const mesh::MeshLayout& mesh);
// "llama step-300 [dp_shard 2]"
std::string make_title(const std::string& model_type, const std::string& what,
                       const mesh::MeshLayout& mesh);

// "parameters" (elements), "tensors", "bytes" and "dtype".
void add_totals(const std::vector<HeldParameter>& parameters, Json& json);
// Adds "world_size" and "mesh": {"dims", "sizes"}, like am-plan show.
void add_mesh(const mesh::MeshLayout& mesh, Json& json);

Json name_or_null(const DefaultTokenizer& tokenizer);
// Returns the tokenizer of the plan's data: data.tokenizer; for pre-tokenized data, the one beside
// the model's config.
DefaultTokenizer tokenizer_of(const config::Plan& plan, int64_t vocab_size);
// Returns the folder's tokenizer.json; otherwise "bytes" if a vocabulary of this size can be bytes
// and the folder has no other tokenizer.
DefaultTokenizer tokenizer_beside(const std::filesystem::path& folder, int64_t vocab_size);

}  // namespace am::inspect
