#include "am/run_folder/data_files.h"

#include <string>
#include <string_view>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"

namespace am::run_folder {

namespace fs = std::filesystem;

namespace {

constexpr const char* kMixed = "files of several checkpoints were mixed here; copy the folder anew";

[[noreturn]] void refuse_save(const fs::path& path, const std::string& theirs,
                              const std::string& ours) {
  throw Error(ErrorKind::kFormat,
              cat(path.string(), ": it belongs to another save than ", kInfoFile,
                  " beside it: ", theirs.empty() ? "none" : theirs, " and ", ours),
              kMixed);
}

}  // namespace

ShardIndex open_index(const fs::path& folder, const CheckpointInfo& info) {
  ShardIndex index = read_shard_index(folder / kIndexFile);
  if (index.save_id != info.save_id) {
    refuse_save(folder / kIndexFile, index.save_id, info.save_id);
  }
  if (static_cast<int64_t>(index.files.size()) != info.world_size) {
    throw Error(ErrorKind::kFormat,
                cat((folder / kIndexFile).string(), ": ", index.files.size(), " files of ",
                    info.world_size, " ranks"),
                kMixed);
  }
  for (size_t rank = 0; rank < index.files.size(); ++rank) {
    const fs::path path = folder / index.files[rank].name;
    const MappedFile file(path);
    const auto bytes = file.bytes();
    const std::string wanted = data_file_label(info.save_id, static_cast<int64_t>(rank));
    const std::string_view label =
        label_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (label != wanted) {
      refuse_save(path, std::string(trim(label)), std::string(trim(wanted)));
    }
    if (bytes.size() != index.files[rank].bytes) {
      throw Error(ErrorKind::kFormat,
                  cat(path.string(), ": it has ", bytes.size(), " bytes, ", kIndexFile, " says ",
                      index.files[rank].bytes),
                  "it was cut off or changed; copy it anew");
    }
  }
  return index;
}

}  // namespace am::run_folder
