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

struct DcpTensor {
  std::string name;
  // The first key of the nested state that the tensor was saved in ("model", "optim"), where it was
  // nested and the writer says so; else empty.
  std::string root;
  std::string dtype;  // torch's: "bfloat16"
  Shape shape;
  std::vector<DcpChunk> chunks;  // without empty ones; in the writer's order
};

// A Python value, pickled.
struct DcpValue {
  std::string name;
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

}  // namespace am::formats
