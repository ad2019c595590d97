// Reads and writes the file `.metadata` of PyTorch's distributed checkpoints (DCP). `.metadata`
// lists the checkpoint's tensors and, for each chunk of a tensor, a data file and a byte range.
//
//   const DcpMetadata metadata = read_dcp_metadata("step-100/.metadata");
//   metadata.tensors[0].chunks[0].slice;     // 1,577 bytes at offset 4,711 of __0_0.distcp
//
// The byte range of a chunk or value contains a complete archive of torch.save (torch_archive.h).
// Byte ranges are pickled as objects of a class `_StorageInfo`. The classes of this name in torch
// and in OLMo-core are supported. Unknown attributes of pickled objects are ignored.
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

// Path of a tensor or value in the saved nested state: dict keys and list indices, from outside to
// inside. For example, {"optim", "param_groups", 0, "lr"} is the path of the value whose name is
// "optim.param_groups.0.lr".
using DcpPath = std::vector<std::variant<std::string, int64_t>>;

struct DcpTensor {
  std::string name;
  DcpPath path;       // empty if `.metadata` contains no path for the tensor
  std::string dtype;  // torch's name, for example "bfloat16"
  Shape shape;
  std::vector<DcpChunk> chunks;  // in the order of `.metadata`, without chunks of 0 elements
};

// A Python value that is not a tensor. `slice` contains the value as an archive of torch.save.
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

// Returns the content of a `.metadata` file. Throws Error(kIo) if the file cannot be read. Throws
// Error(kFormat) if the file is not DCP metadata, names data files outside its folder, lacks the
// byte range of a chunk, or refers to compressed data. Does not check that chunks cover their
// tensors (see mesh/cover.h).
DcpMetadata read_dcp_metadata(const std::filesystem::path& path);

// Returns the content of a `.metadata` file: a pickle that torch.distributed.checkpoint can load.
// The pickle has the classes of PyTorch's FileSystemWriter. Several tensors and values may refer to
// the same slice. Ignores `writer` and `alarms`.
std::string dcp_metadata_bytes(const DcpMetadata& metadata);

}  // namespace am::formats
