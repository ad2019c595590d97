// Formats facts that are common to several kinds of sessions: titles, totals, the mesh, the
// tokenizer.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/base/json.h"
#include "am/config/plan.h"
#include "am/inspect/tensor_catalog.h"

namespace am::inspect {

// Returns the location and the message of the first error, on one line; empty if there is no error.
std::string first_error(const Diagnostics& found);

// Returns the axes with more than one rank, for example "dp_shard 2, tp 2"; empty if there are
// none.
std::string mesh_text(const mesh::MeshLayout& mesh);
// Returns the title of a session, for example "llama step-300 [dp_shard 2]" if `what` is
// "step-300".
std::string make_title(const std::string& model_type, const std::string& what,
                       const mesh::MeshLayout& mesh);

// Adds the totals of the parameters to `json`: "parameters" (number of elements), "tensors" (number
// of tensors), "bytes" and "dtype".
void add_totals(const std::vector<HeldParameter>& parameters, Json& json);
// Adds "world_size" and "mesh": {"dims", "sizes"} to `json`, as am-plan show prints them.
void add_mesh(const mesh::MeshLayout& mesh, Json& json);

Json name_or_null(const DefaultTokenizer& tokenizer);
// Returns the tokenizer that data.tokenizer of the plan selects. If this tokenizer is "bytes" and
// the plan reads no text, returns tokenizer_beside() for the folder of model.path instead.
DefaultTokenizer tokenizer_of(const config::Plan& plan, int64_t vocab_size);
// Returns the path of the tokenizer file in the folder. If the folder has no files of a tokenizer
// and `vocab_size` is at most 256, returns "bytes" (one token per byte). Otherwise, only
// DefaultTokenizer::problem is set.
DefaultTokenizer tokenizer_beside(const std::filesystem::path& folder, int64_t vocab_size);

}  // namespace am::inspect
