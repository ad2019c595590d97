// Converts the sizes of a mesh to and from JSON, for example
// {"pp": 2, "dp_replicate": 1, "dp_shard": 4, "cp": 1, "tp": 2, "ep": 1}. The JSON does not
// contain `etp`; sizes_from_json() sets `etp` to 1.
#pragma once

#include "am/base/json.h"
#include "am/mesh/layout.h"

namespace am::mesh {

Json to_json(const MeshSizes& sizes);
// Converts JSON from to_json() to mesh sizes. Throws Json::exception if a size is missing or is not
// an integer.
MeshSizes sizes_from_json(const Json& json);

}  // namespace am::mesh
