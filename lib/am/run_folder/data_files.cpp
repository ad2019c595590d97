#include "am/run_folder/data_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::run_folder {

namespace fs = std::filesystem;

namespace {

constexpr const char* kMixed = "files of several checkpoints were mixed here; copy the folder anew";

struct Beginning {
  uint64_t size = 0;  // of the file
  std::string label;
};

Beginning look_at(const fs::path& path) {
  const auto fail = [&](int code) {
    throw Error(ErrorKind::kIo,
                cat(path.string(), ": cannot read: ", std::generic_category().message(code)));
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(errno);
  struct stat info {};
  std::array<char, 256> bytes{};
  const bool read = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  const ssize_t count = read ? ::pread(fd, bytes.data(), bytes.size(), 0) : -1;
  const int code = S_ISREG(info.st_mode) ? errno : EINVAL;
  ::close(fd);
  if (count < 0) fail(code);
  return {static_cast<uint64_t>(info.st_size),
          std::string(label_of({bytes.data(), static_cast<size_t>(count)}))};
}

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
    const Beginning found = look_at(path);
    if (found.label != data_file_label(info.save_id, static_cast<int64_t>(rank))) {
      refuse_save(path, std::string(trim(found.label)),
                  std::string(trim(data_file_label(info.save_id, static_cast<int64_t>(rank)))));
    }
    if (found.size != index.files[rank].bytes) {
      throw Error(ErrorKind::kFormat,
                  cat(path.string(), ": it has ", found.size, " bytes, ", kIndexFile, " says ",
                      index.files[rank].bytes),
                  "it was cut off or changed; copy it anew");
    }
  }
  return index;
}

}  // namespace am::run_folder
