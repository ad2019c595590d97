#include "am/base/map_guard.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "support/temporary_folder.h"

using namespace am;

namespace {

constexpr size_t kSize = size_t{1} << 20;

int sum(const MappedFile& file) {
  int total = 0;
  for (const std::byte byte : file.bytes()) total += std::to_integer<int>(byte);
  return total;
}

// Returns the wait status of a child process that ran `body`.
template <typename Body>
int status_of(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status;
}

// Returns the bytes of mapped files that are resident in this process.
int64_t mapped_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0, shared = 0;
  file >> size >> resident >> shared;
  return shared * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

TEST_CASE("pages of mapped files that were read do not stay, and can be read again") {
  const TemporaryFolder folder;
  const auto path = folder / "data";
  constexpr size_t kLarge = size_t{192} << 20;
  {
    std::ofstream(path).put('\1');
    std::filesystem::resize_file(path, kLarge);
  }
  const MappedFile file(path);
  const int64_t before = mapped_bytes();
  int64_t most = 0;
  int total = 0;
  for (size_t first = 0; first < kLarge; first += kSize) {
    for (size_t i = first; i < first + kSize; i += 4096)
      total += std::to_integer<int>(file.bytes()[i]);
    forget_read_pages(kSize);
    most = std::max(most, mapped_bytes() - before);
  }
  CHECK(total == 1);
  CHECK(most <= int64_t{66} << 20);
  CHECK(std::to_integer<int>(file.bytes()[0]) == 1);
}

TEST_CASE("maps end while pages are forgotten elsewhere") {
  const TemporaryFolder folder;
  write_file_atomically(folder / "data", std::string(kSize, '\1'));
  std::atomic<bool> done = false;
  std::thread forgets([&] {
    while (!done) forget_read_pages(size_t{64} << 20);
  });
  for (int i = 0; i < 300; ++i) {
    std::vector<char> own(kSize, 'x');  // may reuse the address of an earlier map
    const MappedFile file(folder / "data");
    CHECK(sum(file) == kSize);
    CHECK(std::all_of(own.begin(), own.end(), [](char c) { return c == 'x'; }));
  }
  done = true;
  forgets.join();
}

TEST_CASE("a mapped file that becomes smaller is an error with its name") {
  guard_mapped_files();
  const TemporaryFolder folder;
  const auto path = folder / "data";
  write_file_atomically(path, std::string(kSize, '\1'));
  const MappedFile file(path);
  CHECK(sum(file) == kSize);
  CHECK_NOTHROW(require_whole(path, file.bytes()));
  std::filesystem::resize_file(path, 8192);
  CHECK(sum(file) == 8192);
  CHECK_THROWS_WITH(require_whole(path, file.bytes()), Catch::Contains(path.string()) &&
                                                           Catch::Contains("became smaller") &&
                                                           Catch::Contains("8192 now"));
  // A later map of the whole file counts as whole, even if the kernel reuses the address of the
  // earlier map.
  write_file_atomically(path, std::string(kSize, '\1'));
  MappedFile other(path);
  CHECK(sum(other) == kSize);
  MappedFile moved(std::move(other));
  CHECK_NOTHROW(require_whole(path, moved.bytes()));
}

TEST_CASE("many maps are guarded at once, in all threads") {
  guard_mapped_files();
  const TemporaryFolder folder;
  const auto path = folder / "data";
  write_file_atomically(path, std::string(kSize, '\1'));
  std::vector<MappedFile> files;
  for (int i = 0; i < 600; ++i) files.emplace_back(path);
  std::filesystem::resize_file(path, 0);
  std::vector<std::thread> threads;
  std::atomic<int> total = 0;  // keeps the reads from being optimised away
  for (size_t first = 0; first < 3; ++first) {
    threads.emplace_back([&, first] {
      for (size_t i = first; i < files.size(); i += 3) total += sum(files[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(total == 0);
  for (const MappedFile& file : files) CHECK_THROWS_AS(require_whole(path, file.bytes()), Error);
}

TEST_CASE("SIGBUS elsewhere ends the process as before") {
  const int status = status_of([] {
    ::signal(SIGBUS, SIG_DFL);  // sanitizers install their own handler
    guard_mapped_files();
    ::raise(SIGBUS);
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGBUS);
}
