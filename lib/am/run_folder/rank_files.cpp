#include "am/run_folder/rank_files.h"

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/run_folder/shard_table.h"

namespace am::run_folder {

namespace fs = std::filesystem;

std::vector<formats::SafetensorsFile> open_rank_files(const fs::path& folder,
                                                      const CheckpointInfo& info) {
  std::vector<formats::SafetensorsFile> files;
  for (int64_t rank = 0; rank < info.world_size; ++rank) {
    files.push_back(formats::SafetensorsFile::open(folder / rank_file_name(rank)));
    if (info.save_id.empty()) continue;
    const auto& metadata = files.back().metadata();
    const auto found = metadata.find(kSaveKey);
    const std::string theirs = found == metadata.end() ? "none" : found->second;
    if (theirs == info.save_id) continue;
    throw Error(ErrorKind::kFormat,
                cat(files.back().path().string(), ": it belongs to another save than ", kInfoFile,
                    " beside it: ", theirs, " and ", info.save_id),
                "files of several checkpoints were mixed here; copy the folder anew");
  }
  return files;
}

}  // namespace am::run_folder
