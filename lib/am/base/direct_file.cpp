#include "am/base/direct_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/signals_blocked.h"
#include "am/base/text.h"

namespace am {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const fs::path& path, int code) {
  throw Error(ErrorKind::kIo,
              cat(path.string(), ": cannot write: ", std::generic_category().message(code)));
}

int open_new(const fs::path& path, int flags) {
  return open_own_file(path, O_WRONLY | O_CREAT | O_TRUNC | flags);
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

// Owns the open file and the threads that write it in pieces of at most `piece_` bytes. finish()
// writes the last, partly filled buffer on the calling thread, so most files smaller than a piece
// start no thread.
class DirectFile::Writers {
 public:
  Writers(fs::path path, uint64_t size, size_t piece) : path_(std::move(path)), piece_(piece) {
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
    // EOPNOTSUPP, ENOSYS and EINVAL are ignored: the file system cannot preallocate.
    if (refused != 0 && refused != EOPNOTSUPP && refused != ENOSYS && refused != EINVAL) {
      ::close(fd_);
      fail(path_, refused);
    }
  }
  Writers(const Writers&) = delete;
  Writers& operator=(const Writers&) = delete;
  ~Writers() {
    end_threads();
    if (fd_ >= 0) ::close(fd_);
  }

  bool is_direct() const { return direct_; }

  // Waits for an unused buffer and returns it. Throws the error of an earlier write.
  std::byte* take_buffer() {
    std::unique_lock lock(mutex_);
    if (buffers_.size() < kDirectWriters && free_.empty()) {
      buffers_.push_back(allocate_aligned(piece_));
      free_.push_back(buffers_.back().get());
    }
    done_.wait(lock, [&] { return !free_.empty(); });
    throw_failure();
    std::byte* buffer = free_.back();
    free_.pop_back();
    return buffer;
  }

  // Queues `size` bytes for writing at `offset`. If `data` is in a buffer from take_buffer(), `own`
  // is that buffer, which becomes unused after the write. Otherwise `own` is null, and `data` must
  // stay valid until wait() returns.
  void put(const std::byte* data, size_t size, uint64_t offset, std::byte* own) {
    add_thread();
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back({data, size, offset, own});
      ++under_way_;
    }
    came_.notify_one();
  }

  // Waits until all queued bytes are written. Throws the error of the first write that failed.
  void wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return under_way_ == 0; });
    throw_failure();
  }

  // Writes the last bytes on the calling thread, truncates the file to `end` bytes, and syncs and
  // closes it.
  void finish(const std::byte* data, size_t size, uint64_t offset, uint64_t end) {
    wait();
    if (const int code = write_piece({data, size, offset, nullptr}); code != 0) fail(path_, code);
    end_threads();
    if (::ftruncate(fd_, static_cast<off_t>(end)) != 0) fail(path_, errno);
    if (sync_retrying(fd_) != 0) fail(path_, errno);
    if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) fail(path_, errno);
  }

 private:
  struct Piece {
    const std::byte* data;
    size_t size;
    uint64_t offset;
    std::byte* own;
  };

  // Starts one more writer thread if fewer than kDirectWriters run. If the system cannot create the
  // thread, the running threads write everything. Throws Error(kIo) if no thread runs.
  void add_thread() {
    if (threads_.size() == kDirectWriters) return;
    try {
      const SignalsBlocked blocked;
      threads_.emplace_back([this] { run(); });
    } catch (const std::system_error&) {
      if (threads_.empty())
        throw Error(ErrorKind::kIo,
                    cat(path_.string(), ": cannot write: no thread could be started"));
    }
  }

  void throw_failure() const {
    if (failure_ != 0) fail(path_, failure_);
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      came_.wait(lock, [&] { return ending_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const Piece piece = queue_.front();
      queue_.pop_front();
      const bool skip = failure_ != 0 || ending_;
      lock.unlock();
      const int code = skip ? 0 : write_piece(piece);
      lock.lock();
      if (failure_ == 0) failure_ = code;
      if (piece.own != nullptr) free_.push_back(piece.own);
      --under_way_;
      done_.notify_all();
    }
  }

  // Writes a piece, and returns 0 or an errno. Switches to the page cache if the system refuses a
  // direct write, or if a short write leaves a rest that is not aligned.
  int write_piece(const Piece& piece) {
    for (size_t done = 0; done < piece.size;) {
      const bool direct = direct_;  // another thread may call leave_direct() during the write
      const ssize_t count = ::pwrite(fd_, piece.data + done, piece.size - done,
                                     static_cast<off_t>(piece.offset + done));
      const int code = count < 0 ? errno : 0;
      if (count > 0) done += static_cast<size_t>(count);
      const bool unaligned = done % kDirectAlignment != 0 && done < piece.size;
      if (direct && (code == EINVAL || unaligned)) {
        if (!leave_direct()) return errno;
      } else if (code != 0 && code != EINTR) {
        return code;
      }
    }
    if (!direct_) {  // starts writeback; errors do not matter, because finish() syncs the file
      ::sync_file_range(fd_, static_cast<off_t>(piece.offset), static_cast<off_t>(piece.size),
                        SYNC_FILE_RANGE_WRITE);
    }
    return 0;
  }

  // Switches all writes to the page cache. Returns false, with errno, on failure. Clears O_DIRECT
  // first and direct_ second: after a thread has read false from direct_, none of its writes is
  // direct.
  bool leave_direct() {
    const int flags = ::fcntl(fd_, F_GETFL);
    if (flags < 0 || ::fcntl(fd_, F_SETFL, flags & ~O_DIRECT) != 0) return false;
    direct_ = false;
    return true;
  }

  void end_threads() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    came_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  fs::path path_;
  size_t piece_;
  int fd_ = -1;
  std::atomic<bool> direct_ = true;

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::condition_variable done_;
  std::deque<Piece> queue_;
  size_t under_way_ = 0;  // number of pieces that are queued or being written
  std::vector<AlignedMemory> buffers_;
  std::vector<std::byte*> free_;  // unused buffers
  int failure_ = 0;               // errno of the first failed write, or 0
  bool ending_ = false;
};

DirectFile::DirectFile(const fs::path& path, uint64_t size, size_t piece)
    : piece_(piece), writers_(std::make_unique<Writers>(path, size, piece)) {
  AM_ASSERT(piece_ > 0 && piece_ % kDirectAlignment == 0, "a piece that is not aligned");
}

DirectFile::~DirectFile() = default;

bool DirectFile::is_direct() const { return writers_ && writers_->is_direct(); }

void DirectFile::write(std::span<const std::byte> bytes) {
  AM_ASSERT(writers_, "write to a closed DirectFile");
  while (!bytes.empty()) {
    if (filled_ == 0 && bytes.size() >= kDirectAlignment && is_aligned(bytes.data())) {
      const auto whole = bytes.first(bytes.size() / kDirectAlignment * kDirectAlignment);
      write_aligned(whole);
      bytes = bytes.subspan(whole.size());
      continue;
    }
    if (buffer_ == nullptr) buffer_ = writers_->take_buffer();
    const size_t take = std::min(piece_ - filled_, bytes.size());
    std::memcpy(buffer_ + filled_, bytes.data(), take);
    filled_ += take;
    bytes = bytes.subspan(take);
    if (filled_ < piece_) continue;
    writers_->put(buffer_, piece_, given_, buffer_);
    given_ += std::exchange(filled_, 0);
    buffer_ = nullptr;
  }
}

// Writes memory whose address and size are multiples of kDirectAlignment, without copying the
// bytes. Waits until they are written, so that the caller may reuse the memory.
void DirectFile::write_aligned(std::span<const std::byte> bytes) {
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(piece_, bytes.size()))) {
    const size_t size = std::min(piece_, bytes.size());
    writers_->put(bytes.data(), size, given_, nullptr);
    given_ += size;
  }
  writers_->wait();
}

void DirectFile::close() {
  if (!writers_) return;
  const uint64_t end = position();
  // O_DIRECT requires a multiple of kDirectAlignment bytes, so the buffer is filled up with zeros.
  // finish() cuts the zeros off the file again.
  const size_t whole = (filled_ + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
  if (whole > filled_) std::memset(buffer_ + filled_, 0, whole - filled_);
  writers_->finish(buffer_, whole, given_, end);
  writers_.reset();
  given_ = end;
  filled_ = 0;
  buffer_ = nullptr;
}

}  // namespace am
