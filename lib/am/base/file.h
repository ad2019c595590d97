// Files: reading whole files, read-only maps, and atomic writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace am {

// Limit, in bytes, of a text file that is read at once: a config, tokenizer, table or index. The
// largest known text file, a tokenizer.json with 256,000 tokens, has 40 MB.
inline constexpr size_t kLargestText = size_t{256} << 20;
// No size limit, for files that automesh itself writes and that grow with a job.
inline constexpr size_t kAnySize = SIZE_MAX;

// Whether a text from an untrusted file is the name of a file in a folder: not empty, neither "."
// nor "..", and without "/" and null characters. A path made of a folder and this name is therefore
// a path in that folder.
bool is_file_name(std::string_view text);
// Whether a text is the path of a description file, for example of a GPU, and not the name of a
// built-in description. A path contains '/' or ends with ".toml".
bool looks_like_path(std::string_view text);

// Reads a whole regular file. Throws Error(kIo) with the file's name and the reason if the file is
// missing or has more than `most` bytes. Also throws if `path` is not a regular file, because pipes
// and devices might never end. Does not block on a pipe without a writer.
std::string read_file(const std::filesystem::path& path, size_t most = kLargestText);

// First bytes of a regular file, and the size of the entire file. read_beginning() reads at most
// `most` bytes, and throws the errors of read_file() except the one for large files.
struct FileBeginning {
  std::string text;
  uint64_t file_bytes = 0;
};
FileBeginning read_beginning(const std::filesystem::path& path, size_t most);

// Returns `path` itself if it is a folder, otherwise the folder that contains the file `path`: "."
// for a name without a folder.
std::filesystem::path folder_of(const std::filesystem::path& path);

// Writes a file atomically, through a temporary file in the same folder, fsync and rename. Throws
// Error(kIo) on failure. An existing file is then unchanged, unless only the sync of the folder
// after the rename failed. The temporary file is removed in any case. Symbolic links are followed.
// A pipe or a device is written directly.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

// The next three functions are for files that a job writes in a folder to which other users may
// write. They follow symbolic links only if the links belong to this user or root, because another
// user's link could make the job overwrite files to which that user has no access.
//
// If `path` is a symbolic link, follows it and further links, and returns the path to which they
// lead. Returns `path` itself if it is not a link or does not exist. Throws Error(kIo) with the
// link and its owner if a link belongs to another user.
std::filesystem::path behind_own_links(const std::filesystem::path& path);
// Calls open(2) with `flags` and O_CLOEXEC, and mode 0666 for a new file. Returns the descriptor,
// which the caller owns, or -1 with errno if the system call fails. Throws Error(kIo) for another
// user's link, and for a path that is not a regular file. Does not block on a pipe.
int open_own_file(const std::filesystem::path& path, int flags);
// Like write_file_atomically(), but throws Error(kIo) for another user's link, and for a path that
// is not a regular file.
void write_own_file(const std::filesystem::path& path, std::string_view text);

// Throws Error(kUsage) if `path` is a folder. If `forced` is false, also throws if `path` is a
// regular file, a symbolic link to one, or a symbolic link whose target is missing. Devices, pipes
// and symbolic links to them are allowed, since writing to a device or pipe overwrites nothing.
void require_free_path(const std::filesystem::path& path, bool forced);

// write_new_files() writes files into a folder that no other process reads yet, and syncs the files
// and the folder. Syncing starts after all files are written, so it takes little longer than for
// one file. Throws Error(kIo). NewFile is the name and the content of a file.
struct NewFile {
  std::string name;
  std::string_view text;
};
void write_new_files(const std::filesystem::path& folder, std::span<const NewFile> files);

// A read-only memory map of a whole regular file; movable, unmapped on destruction. For an empty
// file, bytes() is empty. The constructor throws Error(kIo).
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
  kTruncate,  // starts a new file, or empties an existing one
  kAppend,    // writes after the existing contents
};

// Opens a file by open_own_file(), and writes it. Throws Error(kIo) with the file's name if a write
// fails or the disk is full. The destructor closes the file without a sync and ignores errors; call
// close() to detect them.
class FileWriter {
 public:
  explicit FileWriter(const std::filesystem::path& path, WriteMode mode = WriteMode::kTruncate);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();

  void write(const void* data, size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // Syncs the file to disk and closes it. Throws Error(kIo) if either fails.
  void close();

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

// Calls fsync(), and repeats the call if a signal interrupts it. Signals interrupt fsync() on FUSE
// file systems.
int sync_retrying(int fd);

// Syncs a folder's entries to disk, so that a rename in the folder survives a crash.
void sync_folder(const std::filesystem::path& folder);

}  // namespace am
