// Sizes of a mesh as JSON: {"pp": 2, "dp_replicate": 1, "dp_shard": 4, "cp": 1, "tp": 2, "ep": 1}.
#pragma once

#include "am/base/json.h"
#include "am/mesh/layout.h"

namespace am::mesh {

Json to_json(const MeshSizes& sizes);
// The reverse. Throws Json::exception where one is missing or no number.
MeshSizes sizes_from_json(const Json& json);

}  // namespace am::mesh
