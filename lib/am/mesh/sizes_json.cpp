#include "am/mesh/sizes_json.h"

#include "am/base/json_integer.h"
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
  return {integer_of(json.at("pp")),       integer_of(json.at("dp_replicate")),
          integer_of(json.at("dp_shard")), integer_of(json.at("cp")),
          integer_of(json.at("tp")),       integer_of(json.at("ep"))};
}

}  // namespace am::mesh
