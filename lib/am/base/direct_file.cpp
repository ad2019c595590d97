#include "am/base/direct_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const fs::path& path, int code) {
  throw Error(ErrorKind::kIo,
              cat(path.string(), ": cannot write: ", std::generic_category().message(code)));
}

int open_new(const fs::path& path, int flags) {
  int fd;
  do {
    fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0666);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

bool is_aligned(const std::byte* memory) {
  return reinterpret_cast<uintptr_t>(memory) % kDirectAlignment == 0;
}

}  // namespace

void FreeAligned::operator()(std::byte* memory) const { std::free(memory); }

AlignedMemory allocate_aligned(size_t bytes) {
  const size_t whole =
      (std::max(bytes, size_t{1}) + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kDirectAlignment, whole));
  if (memory == nullptr) throw std::bad_alloc();
  return AlignedMemory(memory);
}

DirectFile::DirectFile(const fs::path& path, uint64_t size, size_t piece)
    : path_(path), piece_(piece) {
  AM_ASSERT(piece_ > 0 && piece_ % kDirectAlignment == 0, "a piece that is not aligned");
  fd_ = open_new(path_, O_DIRECT);
  if (fd_ < 0 && errno == EINVAL) {
    direct_ = false;
    fd_ = open_new(path_, 0);
  }
  if (fd_ < 0) fail(path_, errno);
  if (size == 0) return;
  int refused;
  do {
    refused = ::fallocate(fd_, 0, 0, static_cast<off_t>(size)) == 0 ? 0 : errno;
  } while (refused == EINTR);
  // Not every file system can take space beforehand.
  if (refused != 0 && refused != EOPNOTSUPP && refused != ENOSYS && refused != EINVAL) {
    ::close(std::exchange(fd_, -1));
    fail(path_, refused);
  }
}

DirectFile::~DirectFile() {
  if (fd_ >= 0) ::close(fd_);
}

void DirectFile::write(std::span<const std::byte> bytes) {
  AM_ASSERT(fd_ >= 0, "write to a closed DirectFile");
  while (!bytes.empty()) {
    if (filled_ == 0 && bytes.size() >= kDirectAlignment && is_aligned(bytes.data())) {
      const size_t take = std::min(piece_, bytes.size() / kDirectAlignment * kDirectAlignment);
      write_piece(bytes.data(), take);
      bytes = bytes.subspan(take);
      continue;
    }
    if (!buffer_) buffer_ = allocate_aligned(piece_);
    const size_t take = std::min(piece_ - filled_, bytes.size());
    std::memcpy(buffer_.get() + filled_, bytes.data(), take);
    filled_ += take;
    bytes = bytes.subspan(take);
    if (filled_ == piece_) {
      write_piece(buffer_.get(), piece_);
      filled_ = 0;
    }
  }
}

void DirectFile::write_piece(const std::byte* data, size_t size) {
  size_t done = 0;
  while (direct_ && done < size) {
    const ssize_t count =
        ::pwrite(fd_, data + done, size - done, static_cast<off_t>(written_ + done));
    if (count >= 0) {
      done += static_cast<size_t>(count);
      // The rest of a short write is not aligned.
      if (done % kDirectAlignment != 0) leave_direct();
    } else if (errno == EINVAL) {
      leave_direct();
    } else if (errno != EINTR) {
      fail(path_, errno);
    }
  }
  if (done < size) {
    written_ += done;
    write_through_cache(data + done, size - done);
    return;
  }
  written_ += size;
}

void DirectFile::write_through_cache(const std::byte* data, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t count =
        ::pwrite(fd_, data + done, size - done, static_cast<off_t>(written_ + done));
    if (count >= 0) {
      done += static_cast<size_t>(count);
    } else if (errno != EINTR) {
      fail(path_, errno);
    }
  }
  // Only begun here; close() waits for all of it. No error matters to a hint.
  ::sync_file_range(fd_, static_cast<off_t>(written_), static_cast<off_t>(size),
                    SYNC_FILE_RANGE_WRITE);
  written_ += size;
}

void DirectFile::leave_direct() {
  direct_ = false;
  const int flags = ::fcntl(fd_, F_GETFL);
  if (flags < 0 || ::fcntl(fd_, F_SETFL, flags & ~O_DIRECT) != 0) fail(path_, errno);
}

void DirectFile::close() {
  if (fd_ < 0) return;
  const uint64_t size = position();
  if (filled_ > 0) {
    // A direct write has whole blocks; what is behind the end is cut off again.
    const size_t whole = (filled_ + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
    std::memset(buffer_.get() + filled_, 0, whole - filled_);
    write_piece(buffer_.get(), whole);
    filled_ = 0;
  }
  buffer_.reset();
  if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) fail(path_, errno);
  while (::fsync(fd_) != 0) {
    if (errno != EINTR) fail(path_, errno);
  }
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) fail(path_, errno);
}

}  // namespace am
