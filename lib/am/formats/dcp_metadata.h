// Reads and writes the file `.metadata` of PyTorch's distributed checkpoints (DCP). It lists the
// checkpoint's tensors, and the data file and byte range of each chunk of a tensor.
//
//   const DcpMetadata metadata = read_dcp_metadata("step-100/.metadata");
//   metadata.tensors[0].chunks[0].slice;     // 1,577 bytes at 4,711 of __0_0.distcp
//
// The byte range of a chunk or value is a complete archive of torch.save (torch_archive.h). The
// class `_StorageInfo` of both torch and OLMo-core is supported. Unknown attributes are ignored.
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

// Name of the metadata file beside the data files, for example "step-100/.metadata" beside
// "step-100/__0_0.distcp".
inline constexpr const char* kDcpMetadataFile = ".metadata";

// A range of bytes in a data file.
struct DcpSlice {
  uint32_t file = 0;  // index into DcpMetadata::files
  uint64_t offset = 0;
  uint64_t length = 0;
};

struct DcpChunk {
  Shape offset;  // offset of the chunk in its tensor
  Shape shape;
  DcpSlice slice;
};

// Path of a value in the saved nested state: dict keys and list indices, from outside to inside.
// For example, {"optim", "param_groups", 0, "lr"} has the name "optim.param_groups.0.lr".
using DcpPath = std::vector<std::variant<std::string, int64_t>>;

struct DcpTensor {
  std::string name;
  DcpPath path;       // empty if the file has no path for the tensor
  std::string dtype;  // torch's name, for example "bfloat16"
  Shape shape;
  std::vector<DcpChunk> chunks;  // in the file's order; chunks without elements are left out
};

// A Python value that is not a tensor; its slice is an archive of torch.save.
struct DcpValue {
  std::string name;
  DcpPath path;
  DcpSlice slice;
};

struct DcpMetadata {
  std::vector<std::string> files;  // names of the data files in the folder
  std::vector<DcpTensor> tensors;
  std::vector<DcpValue> values;
  std::string writer;  // library that wrote the data: "torch" or "olmo_core"; empty if no data
  std::vector<PickleGlobal> alarms;  // pickled classes or functions that indicate an attack
};

// Reads a `.metadata` file. Throws Error(kIo) if the file cannot be read; Error(kFormat) if it is
// not DCP metadata, names files outside its folder, has no storage_data entry for a chunk, or lists
// compressed data. Does not check that chunks cover their tensors (see mesh/cover.h).
DcpMetadata read_dcp_metadata(const std::filesystem::path& path);

// Returns the contents of a `.metadata` file: a pickle that torch.distributed.checkpoint can load,
// with the classes of its filesystem writer. Several tensors and values may refer to the same
// slice. Ignores `writer` and `alarms`.
std::string dcp_metadata_bytes(const DcpMetadata& metadata);

}  // namespace am::formats
