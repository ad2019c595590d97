#include "am/run_folder/data_files.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"

namespace am::run_folder {

namespace fs = std::filesystem;

namespace {

constexpr const char* kMixed =
    "the folder mixes files of several checkpoints; copy the checkpoint again";

[[noreturn]] void refuse_save(const fs::path& path, const std::string& theirs,
                              const std::string& ours) {
  throw Error(ErrorKind::kFormat,
              cat(path.string(), ": it does not match ", kInfoFile,
                  " in the same folder: their labels are ", theirs.empty() ? "none" : theirs,
                  " and ", ours),
              kMixed);
}

}  // namespace

ShardIndex read_index(const fs::path& folder, const CheckpointInfo& info, const IndexVisit& visit) {
  ShardIndex index = read_shard_index(folder / kIndexFile, visit);
  if (index.save_id != info.save_id) {
    refuse_save(folder / kIndexFile, index.save_id, info.save_id);
  }
  if (static_cast<int64_t>(index.files.size()) != info.world_size) {
    throw Error(ErrorKind::kFormat,
                cat((folder / kIndexFile).string(), ": it lists ", index.files.size(),
                    " files, but ", info.world_size, " ranks wrote the checkpoint"),
                kMixed);
  }
  return index;
}

void require_data_file(const fs::path& folder, const CheckpointInfo& info, const ShardIndex& index,
                       size_t number, std::string_view beginning, uint64_t file_bytes) {
  const IndexedFile& indexed = index.files[number];
  const fs::path path = folder / indexed.name;
  const std::string wanted = data_file_label(info.save_id, static_cast<int64_t>(number));
  const std::string_view label = label_of(beginning);
  if (label != wanted) refuse_save(path, std::string(trim(label)), std::string(trim(wanted)));
  if (file_bytes != indexed.bytes) {
    throw Error(ErrorKind::kFormat,
                cat(path.string(), ": it has ", file_bytes, " bytes, but according to ", kIndexFile,
                    " it has ", indexed.bytes),
                "the file was cut off or changed; copy it again");
  }
}

std::map<size_t, Error> damaged_files(const fs::path& folder, const CheckpointInfo& info,
                                      const ShardIndex& index) {
  constexpr size_t kMostThreads = 16;
  constexpr size_t kFilesOfThread = 64;
  std::map<size_t, Error> damaged;
  std::mutex mutex;
  std::atomic<size_t> next = 0;
  const auto look = [&] {
    for (size_t number = next++; number < index.files.size(); number = next++) {
      try {
        const FileBeginning file = read_beginning(folder / index.files[number].name, kLongestLabel);
        require_data_file(folder, info, index, number, file.text, file.file_bytes);
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        damaged.emplace(number, error);
      }
    }
  };
  std::vector<std::future<void>> others;
  const size_t threads = std::min(kMostThreads, index.files.size() / kFilesOfThread);
  for (size_t i = 1; i < threads; ++i) others.push_back(std::async(std::launch::async, look));
  look();
  for (std::future<void>& other : others) other.get();
  return damaged;
}

void require_data_files(const fs::path& folder, const CheckpointInfo& info,
                        const ShardIndex& index) {
  const auto damaged = damaged_files(folder, info, index);
  if (!damaged.empty()) throw damaged.begin()->second;
}

void require_complete(const fs::path& folder, const CheckpointInfo& info) {
  const auto forget = [](IndexedTensor& tensor) { tensor.boxes = std::vector<IndexedBox>(); };
  require_data_files(folder, info, read_index(folder, info, {.wants = {}, .see = forget}));
}

}  // namespace am::run_folder
