// Files: reading whole files, read-only maps, and atomic writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace am {

// Limit, in bytes, of a text that is read at once: a config, tokenizer, table or index. The largest
// known one, the tokenizer.json of a vocabulary of 256,000 tokens, has 40 MB.
inline constexpr size_t kLargestText = size_t{256} << 20;
// No size limit, for files that automesh itself writes and that grow with a job.
inline constexpr size_t kAnySize = SIZE_MAX;

// Whether a text from an untrusted file is a file name without "/", and neither "." nor "..", so
// that a path made from it stays in its folder.
bool is_file_name(std::string_view text);
// Whether a text is the path of a description file, and not the name of a built-in description, for
// example of a GPU: a path contains '/' or ends with ".toml".
bool looks_like_path(std::string_view text);

// Reads a whole regular file. Throws Error(kIo) with the file's name and the reason if the file is
// missing or has more than `most` bytes. Also throws for folders, pipes, sockets and devices, which
// might never end, and does not block on a pipe without a writer.
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
// Error(kIo); an old file is then unchanged, except if only the sync of the folder after the rename
// failed. The temporary file is removed in any case. Symbolic links are followed. A path that is
// not a regular file (/dev/stdout, a pipe) is written directly.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

// The next three functions are for files that a job writes in a folder to which other users may
// write. Symbolic links are followed only if they belong to this user or root: another user's link
// could make the job overwrite files to which that user has no access. Paths that are not regular
// files are refused, without blocking on a pipe.
//
// Follows the symbolic links at `path`, and returns the path to which they lead. Returns `path`
// itself if it is not a link or does not exist. Throws Error(kIo) naming a refused link and its
// owner.
std::filesystem::path behind_own_links(const std::filesystem::path& path);
// Calls open(2) with O_CLOEXEC, and mode 0666 for a new file. Returns the descriptor, which the
// caller owns, or -1 with errno if the system call fails. Throws Error(kIo) if the link or path is
// refused.
int open_own_file(const std::filesystem::path& path, int flags);
// Like write_file_atomically(), but follows only links of this user and root, and refuses paths
// that are not regular files.
void write_own_file(const std::filesystem::path& path, std::string_view text);

// Throws Error(kUsage) if `path` is a folder, or if it is a file and `forced` is false. Devices and
// pipes (/dev/stdout) are allowed, since writing to them overwrites nothing.
void require_free_path(const std::filesystem::path& path, bool forced);

// Name and content of a file for write_new_files(), which writes files into a folder that no
// process reads yet. Syncing starts after all files are written, so it takes little longer than for
// one file. Throws Error(kIo).
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
  kTruncate,  // starts a new file, or empties an existing one
  kAppend,    // writes after the existing contents
};

// Writes a file opened by open_own_file() and reports short writes: a full disk is an Error(kIo)
// with the file's name, never a truncated file that looks complete. The destructor closes the file;
// call close() to detect errors.
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

// Calls fsync(), again if a signal interrupts it, as on FUSE file systems.
int sync_retrying(int fd);

// Syncs a folder's entries to disk, so that a rename in the folder survives a crash.
void sync_folder(const std::filesystem::path& folder);

}  // namespace am
