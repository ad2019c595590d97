#include "am/mesh/sizes_json.h"

namespace am::mesh {

Json to_json(const MeshSizes& sizes) {
  return {{"pp", sizes.pp},
          {"dp_replicate", sizes.dp_replicate},
          {"dp_shard", sizes.dp_shard},
          {"cp", sizes.cp},
          {"tp", sizes.tp},
          {"ep", sizes.ep}};
}

MeshSizes sizes_from_json(const Json& json) {
  return {json.at("pp").get<int64_t>(),       json.at("dp_replicate").get<int64_t>(),
          json.at("dp_shard").get<int64_t>(), json.at("cp").get<int64_t>(),
          json.at("tp").get<int64_t>(),       json.at("ep").get<int64_t>()};
}

}  // namespace am::mesh
