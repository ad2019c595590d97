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

void require_file(const fs::path& folder, const CheckpointInfo& info, const IndexedFile& indexed,
                  size_t rank) {
  const fs::path path = folder / indexed.name;
  const MappedFile file(path);
  const auto bytes = file.bytes();
  const std::string wanted = data_file_label(info.save_id, static_cast<int64_t>(rank));
  const std::string_view label =
      label_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (label != wanted) refuse_save(path, std::string(trim(label)), std::string(trim(wanted)));
  if (bytes.size() != indexed.bytes) {
    throw Error(ErrorKind::kFormat,
                cat(path.string(), ": it has ", bytes.size(), " bytes, ", kIndexFile, " says ",
                    indexed.bytes),
                "it was cut off or changed; copy it anew");
  }
}

}  // namespace

ShardIndex read_index(const fs::path& folder, const CheckpointInfo& info) {
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
  return index;
}

ShardIndex open_index(const fs::path& folder, const CheckpointInfo& info) {
  ShardIndex index = read_index(folder, info);
  for (size_t rank = 0; rank < index.files.size(); ++rank) {
    require_file(folder, info, index.files[rank], rank);
  }
  return index;
}

std::map<size_t, Error> damaged_files(const fs::path& folder, const CheckpointInfo& info,
                                      const ShardIndex& index) {
  std::map<size_t, Error> damaged;
  for (size_t rank = 0; rank < index.files.size(); ++rank) {
    try {
      require_file(folder, info, index.files[rank], rank);
    } catch (const Error& error) {
      damaged.emplace(rank, error);
    }
  }
  return damaged;
}

}  // namespace am::run_folder
