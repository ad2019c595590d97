// Files: whole reads, read-only maps, and writes that appear whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace am {

// The most bytes of a text that is read at once: configs, tokenizers, tables and indices, whose
// largest that are known (tokenizer.json of 256,000 tokens) have 40 MB.
inline constexpr size_t kLargestText = size_t{256} << 20;
// For files that we write ourselves and that grow with a job.
inline constexpr size_t kAnySize = SIZE_MAX;

// Whether a text that a file of somebody's holds names an entry of its folder, and nothing else.
bool is_file_name(std::string_view text);

// The whole of a regular file. Throws Error(kIo) that names it and the reason: it is missing, has
// more than `most` bytes, or is a folder, a pipe, a socket or a device, which might never end. A
// pipe without a writer does not make it wait.
std::string read_file(const std::filesystem::path& path, size_t most = kLargestText);

// The path where it is a folder, else the folder that holds the file: "." for a bare name.
std::filesystem::path folder_of(const std::filesystem::path& path);

// Writes `path` through a temporary sibling, fsync and rename. Throws Error(kIo); on failure the
// old file, if any, is untouched and the temporary is removed. Links are followed; what is no
// regular file
// (/dev/stdout, a pipe) is written directly.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

// For what a job writes under names of its own, in a folder where others may have made entries too:
// links are followed where their owner is this user or root, all others could lead a job to write
// over files that their owner may not touch; and what is no regular file is refused, without
// waiting for a pipe's reader.
//
// Where `path` leads; `path` itself where nothing is there. Throws Error(kIo) that names the link
// and its owner.
std::filesystem::path behind_own_links(const std::filesystem::path& path);
// open(2) with O_CLOEXEC, and 0666 for a new file: the descriptor, which is the caller's. -1, and
// errno, where the system refuses it. Throws Error(kIo) as above.
int open_own_file(const std::filesystem::path& path, int flags);
// write_file_atomically() of such a file.
void write_own_file(const std::filesystem::path& path, std::string_view text);

// Throws Error(kUsage) where a file or folder has this name and `forced` is false. What is no
// regular file (/dev/stdout, a pipe) has nothing to lose.
void require_free_path(const std::filesystem::path& path, bool forced);

// Files of a folder that nobody reads yet: all are written, and then all are brought to the disk,
// which takes little longer than one of them would. Throws Error(kIo).
struct NewFile {
  std::string name;
  std::string_view text;
};
void write_new_files(const std::filesystem::path& folder, std::span<const NewFile> files);

// A read-only memory map of a whole regular file; movable, unmapped on destruction. An empty file
// maps to an empty span.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

enum class WriteMode {
  kTruncate,  // a new file; an old one of this name is emptied
  kAppend,    // behind what is there
};

// Writes piece by piece a file as open_own_file() opens it, and reports short writes: a full disk
// is an Error(kIo) with its name, never a truncated file that looks finished. The destructor
// closes; call close() to learn of errors.
class FileWriter {
 public:
  explicit FileWriter(const std::filesystem::path& path, WriteMode mode = WriteMode::kTruncate);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();

  void write(const void* data, size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // fsync and close.
  void close();

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

// Flushes a folder's own entries to disk, so that a rename in it survives a crash.
void sync_folder(const std::filesystem::path& folder);

}  // namespace am
