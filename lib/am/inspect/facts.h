// Small facts that both views state alike: titles, totals, the mesh, the tokenizer of a plan.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/base/json.h"
#include "am/config/plan.h"
#include "am/inspect/holdings.h"

namespace am::inspect {

// The first error's text with its place, for a sentence; empty without errors.
std::string first_error(const Diagnostics& found);

// "dp_shard 2, tp 2": the axes with more than one rank; empty for one rank.
std::string mesh_text(const mesh::MeshLayout& mesh);
// "llama step-300 [dp_shard 2]"
std::string make_title(const std::string& model_type, const std::string& what,
                       const mesh::MeshLayout& mesh);

// "parameters" (elements), "tensors", "bytes" and "dtype".
void add_totals(const std::vector<HeldParameter>& parameters, Json& json);
// "world_size" and "mesh": {"dims", "sizes"}, as am-plan show.
void add_mesh(const mesh::MeshLayout& mesh, Json& json);

Json name_or_null(const DefaultTokenizer& tokenizer);
// What the plan's data was cut by: data.tokenizer; for data that came as tokens, what is beside the
// model's config.
DefaultTokenizer tokenizer_of(const config::Plan& plan, int64_t vocab_size);
// The folder's tokenizer.json; without one bytes, where a vocabulary of that size can be bytes and
// no other tokenizer lies there.
DefaultTokenizer tokenizer_beside(const std::filesystem::path& folder, int64_t vocab_size);

}  // namespace am::inspect
