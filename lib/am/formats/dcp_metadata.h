// `.metadata` of PyTorch's distributed checkpoints (DCP): which tensors a folder has, and where the
// chunks of each lie.
//
//   const DcpMetadata metadata = read_dcp_metadata("step-100/.metadata");
//   metadata.tensors[0].chunks[0].slice;     // 1,577 bytes at 4,711 of __0_0.distcp
//
// A slice is one whole archive of torch.save (torch_archive.h): a tensor of the chunk's shape, or a
// value. Classes are compared by whole names; of torch's and OLMo-core's `_StorageInfo` both are
// known. Attributes that are not known are left alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "am/base/shape.h"
#include "am/formats/pickle.h"

namespace am::formats {

// "step-100/.metadata" beside the data files "__0_0.distcp".
inline constexpr const char* kDcpMetadataFile = ".metadata";

// A part of a data file.
struct DcpSlice {
  uint32_t file = 0;  // in DcpMetadata::files
  uint64_t offset = 0;
  uint64_t length = 0;
};

struct DcpChunk {
  Shape offset;  // in the tensor
  Shape shape;
  DcpSlice slice;
};

// Where something stood in the nested state that was saved: keys of dicts and places in lists, from
// outside to inside. {"optim", "param_groups", 0, "lr"} is called "optim.param_groups.0.lr".
using DcpPath = std::vector<std::variant<std::string, int64_t>>;

struct DcpTensor {
  std::string name;
  DcpPath path;       // empty where the writer does not say
  std::string dtype;  // torch's: "bfloat16"
  Shape shape;
  std::vector<DcpChunk> chunks;  // without empty ones; in the writer's order
};

// A Python value, pickled.
struct DcpValue {
  std::string name;
  DcpPath path;
  DcpSlice slice;
};

struct DcpMetadata {
  std::vector<std::string> files;  // names in the folder
  std::vector<DcpTensor> tensors;
  std::vector<DcpValue> values;
  std::string writer;                // "torch" or "olmo_core"; empty where nothing is stored
  std::vector<PickleGlobal> alarms;  // globals that were put there to do harm
};

// Throws Error(kIo) when it cannot be read; Error(kFormat) when it is no DCP metadata, names files
// outside its folder, or has a chunk that is stored nowhere. Whether chunks make up their tensors
// is not looked at (mesh/cover.h).
DcpMetadata read_dcp_metadata(const std::filesystem::path& path);

// The same as bytes of the file: a pickle that torch.distributed.checkpoint loads, of the classes
// of its filesystem writer. Several tensors and values may name one slice. `writer` and `alarms`
// are not written.
std::string dcp_metadata_bytes(const DcpMetadata& metadata);

}  // namespace am::formats
