#include "am/base/direct_file.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <string>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "support/temporary_folder.h"

namespace am {
namespace {

namespace fs = std::filesystem;

std::string numbered(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>((i * 31 + i / 251) & 0xffU);
  return text;
}

void write(DirectFile& file, std::string_view text) {
  file.write(std::as_bytes(std::span(text.data(), text.size())));
}

// Writes `size` bytes from unaligned memory, `step` bytes per call, and checks that the file
// contains them.
void check_written(const fs::path& path, size_t size, size_t step) {
  const std::string text = numbered(size);
  DirectFile file(path, size, 2 * kDirectAlignment);
  for (size_t at = 0; at < size; at += step) write(file, std::string_view(text).substr(at, step));
  CHECK(file.position() == size);
  file.close();
  CHECK(read_file(path) == text);
}

}  // namespace

TEST_CASE("files of any size are written in any parts") {
  const TemporaryFolder folder;
  // /dev/shm is a tmpfs, which may not support writes that bypass the page cache.
  for (const fs::path& place : {folder.path(), fs::path("/dev/shm")}) {
    if (!fs::is_directory(place)) continue;
    const fs::path path = place / cat("am_direct_file_", ::getpid());
    for (const size_t size : {0, 1, 4'095, 4'096, 4'097, 8'192, 50'000}) {
      for (const size_t step : {1'000, 4'096, 100'000}) check_written(path, size, step);
    }
    fs::remove(path);
  }
}

TEST_CASE("aligned memory goes to the file as it lies") {
  const TemporaryFolder folder;
  const size_t size = 5 * kDirectAlignment + 100;
  const AlignedMemory memory = allocate_aligned(size);
  const std::string text = numbered(size);
  std::memcpy(memory.get(), text.data(), size);
  DirectFile file(folder / "x", size, 2 * kDirectAlignment);
  file.write({memory.get(), size});
  file.close();
  CHECK(read_file(folder / "x") == text);
}

TEST_CASE("an old file is replaced, a longer one cut") {
  const TemporaryFolder folder;
  write_file_atomically(folder / "x", numbered(100'000));
  check_written(folder / "x", 10, 10);
  CHECK(fs::file_size(folder / "x") == 10);
}

TEST_CASE("what cannot be written names the file") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(DirectFile(folder / "missing/x", 10),
                    Catch::Contains("missing/x: cannot write"));
  struct rlimit before {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  struct rlimit small = before;
  small.rlim_cur = 8'192;
  auto* const old = std::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::string problem;
  try {
    DirectFile file(folder / "x", 100'000, kDirectAlignment);
    write(file, numbered(100'000));
    file.close();
  } catch (const Error& error) {
    problem = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  CHECK_THAT(problem, Catch::EndsWith("x: cannot write: File too large"));
}

}  // namespace am
