// Input: metadata.pkl of torch_checkpointing. In accepted metadata, each rank's parts lie inside
// their tensors, and each file lies inside the checkpoint.
#include <cstdlib>

#include "am/frameworks/torch_checkpointing/metadata.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace am::frameworks;
  using namespace am::stored;
  try {
    const auto metadata =
        TorchCheckpointingMetadata::read({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    for (const auto& file : metadata.files()) {
      const std::filesystem::path path = file.path;
      if (path.is_absolute() || *path.begin() == ".." || file.rank >= metadata.ranks()) {
        std::abort();
      }
    }
    for (const KeyPath& path : metadata.paths()) {
      for (int64_t rank = 0; rank < std::min<int64_t>(metadata.ranks(), 4); ++rank) {
        const auto part = metadata.place(path, rank);
        if (!part) continue;
        for (const auto& [box, local] : part->boxes) {
          for (size_t dim = 0; dim < part->shape.size(); ++dim) {
            const bool inside = box.offset[dim] >= 0 && box.shape[dim] >= 0 &&
                                box.offset[dim] + box.shape[dim] <= part->shape[dim];
            if (!inside) std::abort();
          }
        }
      }
    }
  } catch (const am::Error&) {
    // Invalid input is refused with an error.
  }
  return 0;
}
