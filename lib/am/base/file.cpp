#include "am/base/file.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "am/base/descriptor.h"
#include "am/base/error.h"
#include "am/base/map_guard.h"
#include "am/base/text.h"
#include "am/base/units.h"

namespace am {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const char* what, int code) {
  throw Error(ErrorKind::kIo,
              cat(path.string(), ": ", what, ": ", std::generic_category().message(code)));
}

int open_retrying(const fs::path& path, int flags, mode_t mode = 0) {
  int fd;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a file";
}

void demand_regular(const fs::path& path, const struct stat& info, const char* what) {
  if (S_ISREG(info.st_mode)) return;
  throw Error(ErrorKind::kIo, cat(path.string(), ": ", what, ": it is ", kind_of(info.st_mode)),
              "name a regular file");
}

// Opens a regular file for reading. Checks the file type before opening, because opening some
// devices has side effects, and again afterwards, because the file may have been replaced.
// O_NONBLOCK avoids waiting for a pipe's writer.
Descriptor open_to_read(const fs::path& path, struct stat& info) {
  if (::stat(path.c_str(), &info) != 0) fail(path, "cannot read", errno);
  demand_regular(path, info, "cannot read");
  Descriptor fd(open_retrying(path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  if (fd.get() < 0 || ::fstat(fd.get(), &info) != 0) fail(path, "cannot read", errno);
  demand_regular(path, info, "cannot read");
  return fd;
}

[[noreturn]] void refuse_size(const fs::path& path, size_t most) {
  throw Error(ErrorKind::kIo,
              cat(path.string(), ": cannot read: it has more than ",
                  format_bytes(static_cast<int64_t>(most)), ", the limit for this kind of file"));
}

void write_all(int fd, const fs::path& path, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(fd, at, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path, "cannot write", errno);
    if (written == 0) fail(path, "cannot write", ENOSPC);
    at += written;
    size -= static_cast<size_t>(written);
  }
}

// Syncs a file to disk. Ignores the errors of pipes and terminals, which cannot be synced.
void sync_all(int fd, const fs::path& path) {
  if (sync_retrying(fd) != 0 && errno != EINVAL && errno != EROFS)
    fail(path, "cannot write", errno);
}

// Returns the path of a temporary file in the folder of `path`. No other thread or process of this
// host uses the path.
fs::path temporary_sibling(const fs::path& path) {
  static std::atomic<unsigned> counter{0};
  return path.parent_path() /
         cat(".", path.filename().string(), ".", ::getpid(), ".", counter++, ".tmp");
}

// Returns the path to which the symbolic link `path` leads, or `path` itself if it is not a link. A
// rename to this path replaces the file and not the link.
fs::path behind_links(const fs::path& path) {
  std::error_code none;
  if (!fs::is_symlink(path, none)) return path;
  fs::path target = fs::weakly_canonical(path, none);
  return none ? path : target;
}

// Replaces the file `target` by a file with the content `text`. Messages cite `path`, the name
// before symbolic links were resolved. `old` is the status of the existing file, or null if
// `target` does not exist. The new file has the mode of the existing file.
void replace_file(const fs::path& path, const fs::path& target, const struct stat* old,
                  std::string_view text) {
  const fs::path temporary = temporary_sibling(target);
  try {
    const Descriptor fd(open_retrying(temporary, O_WRONLY | O_CREAT | O_EXCL, 0666));
    if (fd.get() < 0) fail(path, "cannot write", errno);
    write_all(fd.get(), path, text.data(), text.size());
    if (old != nullptr && ::fchmod(fd.get(), old->st_mode & 07777) != 0) {
      fail(path, "cannot write", errno);
    }
    sync_all(fd.get(), path);
    if (::rename(temporary.c_str(), target.c_str()) != 0) fail(path, "cannot write", errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder(target.parent_path());
}

std::string user_name(uid_t id) {
  std::array<char, 4096> text;
  struct passwd entry {};
  struct passwd* known = nullptr;
  ::getpwuid_r(id, &entry, text.data(), text.size(), &known);
  return cat("user ", id, known == nullptr ? "" : cat(" (", known->pw_name, ")"));
}

}  // namespace

bool is_file_name(std::string_view text) {
  return !text.empty() && text != "." && text != ".." && text.find('/') == std::string_view::npos &&
         text.find('\0') == std::string_view::npos;
}

bool looks_like_path(std::string_view text) {
  return text.find('/') != std::string_view::npos || ends_with(text, ".toml");
}

std::string read_file(const fs::path& path, size_t most) {
  struct stat info {};
  const Descriptor fd = open_to_read(path, info);
  const auto said = static_cast<size_t>(info.st_size);
  if (said > most) refuse_size(path, most);
  std::string text;
  // The file's reported size is only a hint: files in /proc report 0, and a log may grow meanwhile.
  text.resize(said > 0 ? said + 1 : 1 << 16);
  size_t used = 0;
  while (true) {
    if (used == text.size()) text.resize(text.size() * 2);
    const ssize_t got = ::read(fd.get(), text.data() + used, text.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, "cannot read", errno);
    if (got == 0) break;
    used += static_cast<size_t>(got);
    if (used > most) refuse_size(path, most);
  }
  text.resize(used);
  return text;
}

FileBeginning read_beginning(const fs::path& path, size_t most) {
  struct stat info {};
  const Descriptor fd = open_to_read(path, info);
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM);
  FileBeginning beginning{std::string(most, '\0'), static_cast<uint64_t>(info.st_size)};
  size_t used = 0;
  while (used < most) {
    const ssize_t got =
        ::pread(fd.get(), beginning.text.data() + used, most - used, static_cast<off_t>(used));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, "cannot read", errno);
    if (got == 0) break;
    used += static_cast<size_t>(got);
  }
  beginning.text.resize(used);
  return beginning;
}

void require_free_path(const fs::path& path, bool forced) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    throw Error(ErrorKind::kUsage, cat(path.string(), " is a folder"), "name a file");
  }
  // A symbolic link whose target is missing also takes the path. A symbolic link to a device or
  // pipe does not.
  const bool taken = fs::is_regular_file(path, ignored) ||
                     (fs::is_symlink(path, ignored) && !fs::exists(path, ignored));
  if (forced || !taken) return;
  throw Error(ErrorKind::kUsage, cat(path.string(), " exists already"), "--force overwrites it");
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return path;
  return path.has_parent_path() ? path.parent_path() : ".";
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  const fs::path target = behind_links(path);
  struct stat old {};
  const bool exists = ::stat(target.c_str(), &old) == 0;
  if (exists && S_ISDIR(old.st_mode)) fail(path, "cannot write", EISDIR);
  if (exists && !S_ISREG(old.st_mode)) {  // a rename would replace the device
    const Descriptor fd(open_retrying(target, O_WRONLY));
    if (fd.get() < 0) fail(path, "cannot write", errno);
    write_all(fd.get(), path, text.data(), text.size());
    return;
  }
  replace_file(path, target, exists ? &old : nullptr, text);
}

// Opens each link once, and reads the owner and the target of the link through the same descriptor.
// Another process therefore cannot replace the link between the two system calls.
fs::path behind_own_links(const fs::path& path) {
  constexpr int kMostLinks = 40;  // the kernel's limit
  fs::path place = path;
  for (int links = 0; links < kMostLinks; ++links) {
    const Descriptor entry(open_retrying(place, O_PATH | O_NOFOLLOW));
    struct stat info {};
    const bool known = entry.get() >= 0 && ::fstat(entry.get(), &info) == 0;
    if (!known || !S_ISLNK(info.st_mode)) return place;
    if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
      throw Error(ErrorKind::kIo,
                  cat(place.string(), ": this symbolic link belongs to ", user_name(info.st_uid),
                      ", so it is not followed"),
                  "a link is followed only if it belongs to you or to root; remove the link, or "
                  "choose another folder");
    }
    std::string target(PATH_MAX, '\0');
    const ssize_t size = ::readlinkat(entry.get(), "", target.data(), target.size());
    if (size < 0) fail(place, "cannot follow", errno);
    target.resize(static_cast<size_t>(size));
    place = place.parent_path() / target;
  }
  fail(path, "cannot follow", ELOOP);
}

int open_own_file(const fs::path& path, int flags) {
  const fs::path place = behind_own_links(path);
  struct stat info {};
  // Checks the type before the file is opened, because opening some devices has side effects.
  if (::lstat(place.c_str(), &info) == 0) demand_regular(path, info, "cannot write");
  Descriptor fd(open_retrying(place, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666));
  if (fd.get() < 0) return -1;
  if (::fstat(fd.get(), &info) != 0) fail(path, "cannot write", errno);
  demand_regular(path, info, "cannot write");
  return fd.release();
}

void write_own_file(const fs::path& path, std::string_view text) {
  const fs::path place = behind_own_links(path);
  struct stat old {};
  const bool exists = ::lstat(place.c_str(), &old) == 0;
  if (exists) demand_regular(path, old, "cannot write");
  replace_file(path, place, exists ? &old : nullptr, text);
}

MappedFile::MappedFile(const fs::path& path) {
  struct stat info {};
  const Descriptor fd = open_to_read(path, info);
  if (info.st_size == 0) return;
  const auto size = static_cast<size_t>(info.st_size);
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (mapped == MAP_FAILED) fail(path, "cannot map", errno);
  data_ = static_cast<const std::byte*>(mapped);
  size_ = size;
  begin_guard(bytes());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  end_guard(bytes());
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

FileWriter::FileWriter(const fs::path& path, WriteMode mode) : path_(path) {
  const int how = mode == WriteMode::kAppend ? O_APPEND : O_TRUNC;
  fd_ = open_own_file(path, O_WRONLY | O_CREAT | how);
  if (fd_ < 0) fail(path, "cannot write", errno);
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::write(const void* data, size_t size) {
  AM_ASSERT(fd_ >= 0, "write to a closed FileWriter");
  write_all(fd_, path_, data, size);
}

void FileWriter::close() {
  if (fd_ < 0) return;
  sync_all(fd_, path_);
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) fail(path_, "cannot write", errno);
}

void write_new_files(const fs::path& folder, std::span<const NewFile> files) {
  std::vector<std::unique_ptr<FileWriter>> open;
  for (const NewFile& file : files) {
    open.push_back(std::make_unique<FileWriter>(folder / file.name));
    open.back()->write(file.text);
  }
  for (const auto& file : open) file->close();
  sync_folder(folder);
}

int sync_retrying(int fd) {
  int result;
  do {
    result = ::fsync(fd);
  } while (result != 0 && errno == EINTR);
  return result;
}

void sync_folder(const fs::path& folder) {
  const fs::path path = folder.empty() ? fs::path(".") : folder;
  const Descriptor fd(open_retrying(path, O_RDONLY | O_DIRECTORY));
  if (fd.get() < 0) fail(path, "cannot sync", errno);
  sync_all(fd.get(), path);
}

}  // namespace am
