#include "am/base/file.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <functional>
#include <utility>

#include "am/base/descriptor.h"
#include "am/base/error.h"
#include "am/base/text.h"
#include "support/file_limit.h"

using namespace am;
namespace fs = std::filesystem;

TEST_CASE("the folder of a file that is named alone is the current one") {
  CHECK(folder_of("config.json") == ".");
  CHECK(folder_of("model/config.json") == "model");
  CHECK(folder_of("/config.json") == "/");
  CHECK(folder_of("/tmp") == "/tmp");
}

namespace {

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / cat("am_file_test_", ::getpid())) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const char* name) const { return path_ / name; }
  size_t entries() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kIo);
    return error.what();
  }
  return "nothing thrown";
}

}  // namespace

TEST_CASE("what is written is read back, binary and empty too") {
  const Folder folder;
  for (const std::string& text :
       {std::string(), std::string("a\0b\xff\n", 5), std::string(300000, 'x')}) {
    write_file_atomically(folder / "f", text);
    CHECK(read_file(folder / "f") == text);
    const MappedFile map(folder / "f");
    REQUIRE(map.bytes().size() == text.size());
    CHECK((text.empty() || std::memcmp(map.bytes().data(), text.data(), text.size()) == 0));
  }
  CHECK(folder.entries() == 1);  // no temporary file is left
}

TEST_CASE("files without a size are read to their end") {
  CHECK(starts_with(read_file("/proc/self/status"), "Name:"));
}

TEST_CASE("a file that cannot be read is an error with its name and the reason") {
  const Folder folder;
  const std::string missing = (folder / "missing").string();
  CHECK(message_of([&] { read_file(missing); }) ==
        missing + ": cannot read: No such file or directory");
  CHECK(message_of([&] { MappedFile map(missing); }).find(missing) == 0);
  CHECK(message_of([&] { read_file("/tmp"); }) == "/tmp: cannot read: it is a folder");
  CHECK(message_of([&] { MappedFile map("/tmp"); }) == "/tmp: cannot read: it is a folder");
}

TEST_CASE("what may never end is refused by its kind, without waiting") {
  const Folder folder;
  const fs::path pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string socket_name = (folder / "socket").string();
  REQUIRE(socket_name.size() < sizeof(name.sun_path));
  std::strcpy(name.sun_path, socket_name.c_str());
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(::bind(socket, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0);
  for (const auto& [path, kind] : {std::pair<fs::path, const char*>{pipe, "a pipe"},
                                   {socket_name, "a socket"},
                                   {"/dev/zero", "a device"}}) {
    const std::string expected = cat(path.string(), ": cannot read: it is ", kind);
    CHECK(message_of([&] { read_file(path); }) == expected);
    CHECK(message_of([&] { MappedFile map(path); }) == expected);
  }
  ::close(socket);
}

TEST_CASE("a file has a largest size, which the caller may choose") {
  const Folder folder;
  const fs::path file = folder / "f";
  write_file_atomically(file, std::string(1000, 'x'));
  CHECK(read_file(file, 1000).size() == 1000);
  CHECK_THAT(message_of([&] { read_file(file, 999); }),
             Catch::StartsWith(file.string()) && Catch::Contains("more than"));
  fs::resize_file(file, kLargestText + 1);  // sparse: no data is written
  CHECK_THAT(message_of([&] { read_file(file); }), Catch::Contains("more than 256.00 MiB"));
  CHECK_THAT(message_of([&] { read_file("/proc/self/status", 10); }), Catch::Contains("more than"));
}

TEST_CASE("an atomic write that fails leaves the old file and no temporary") {
  const Folder folder;
  CHECK(message_of([&] {
          write_file_atomically(folder / "no/such/folder", "x");
        }).find("No such file") != std::string::npos);
  fs::create_directories(folder / "dir");
  CHECK(message_of([&] { write_file_atomically(folder / "dir", "x"); }).find("directory") !=
        std::string::npos);
  CHECK(folder.entries() == 1);
  if (fs::exists("/dev/full")) {
    CHECK(message_of([] { write_file_atomically("/dev/full", "x"); }) ==
          "/dev/full: cannot write: No space left on device");
    CHECK_FALSE(fs::is_regular_file("/dev/full"));
  }
}

TEST_CASE("an atomic write keeps the mode and follows links") {
  const Folder folder;
  write_file_atomically(folder / "target", "old");
  ::chmod((folder / "target").c_str(), 0640);
  fs::create_symlink(folder / "target", folder / "link");
  write_file_atomically(folder / "link", "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(read_file(folder / "target") == "new");
  struct stat info {};
  REQUIRE(::stat((folder / "target").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0640);
}

TEST_CASE("a mapped file can be moved, and the bytes stay") {
  const Folder folder;
  write_file_atomically(folder / "f", "hello");
  MappedFile a(folder / "f");
  const std::byte* at = a.bytes().data();
  MappedFile b(std::move(a));
  CHECK(b.bytes().data() == at);
  MappedFile c(folder / "f");
  c = std::move(b);
  CHECK(c.bytes().data() == at);
  CHECK(c.bytes().size() == 5);
}

TEST_CASE("a writer truncates or appends, and tells of a full disk") {
  const Folder folder;
  write_file_atomically(folder / "f", "something long");
  {
    FileWriter writer(folder / "f");
    writer.write("ab");
    writer.write("c");
    writer.close();
    CHECK_THROWS_AS(writer.write("d"), Error);
  }
  CHECK(read_file(folder / "f") == "abc");
  FileWriter(folder / "f", WriteMode::kAppend).write("def");
  CHECK(read_file(folder / "f") == "abcdef");
  {
    const FileLimit limit(6);
    FileWriter full(folder / "f", WriteMode::kAppend);
    CHECK(message_of([&] { full.write("x"); }) ==
          (folder / "f").string() + ": cannot write: File too large");
  }
  CHECK(message_of([&] { FileWriter writer(folder / "no/f"); }).find("cannot write") !=
        std::string::npos);
}

TEST_CASE("sync_folder wants a folder") {
  const Folder folder;
  sync_folder(folder / ".");
  CHECK(message_of([&] { sync_folder(folder / "none"); }).find("cannot sync") != std::string::npos);
}

namespace {

// Opens `path` with open_own_file() and closes it. Returns the error message, or "nothing thrown".
std::string opened(const fs::path& path, int flags) {
  return message_of([&] {
    const Descriptor fd(open_own_file(path, flags));
    if (fd.get() < 0) throw Error(ErrorKind::kIo, std::strerror(errno));
  });
}

}  // namespace

TEST_CASE("a file of ours is opened and written through our own links") {
  const Folder folder;
  fs::create_directory(folder / "there");
  fs::create_symlink("there/file", folder / "near");
  fs::create_symlink(folder / "near", folder / "far");
  CHECK(behind_own_links(folder / "far") == folder / "there/file");
  CHECK(behind_own_links(folder / "none") == folder / "none");
  CHECK(opened(folder / "far", O_WRONLY | O_CREAT) == "nothing thrown");
  write_own_file(folder / "far", "text");
  CHECK(read_file(folder / "there/file") == "text");
  CHECK(fs::is_symlink(folder / "far"));
  fs::create_symlink("round", folder / "round");
  CHECK_THAT(opened(folder / "round", O_WRONLY), Catch::Contains("Too many levels"));
}

TEST_CASE("another user's link is named, with its owner, and not followed") {
  const Folder folder;
  std::ofstream(folder / "precious") << "precious";
  fs::create_symlink("precious", folder / "theirs");
  if (::lchown((folder / "theirs").c_str(), 12345, 12345) != 0) return;  // only root may
  fs::create_symlink("theirs", folder / "ours");
  for (const char* name : {"theirs", "ours"}) {
    const std::string said =
        (folder / "theirs").string() + ": this symbolic link belongs to user 12345";
    CHECK_THAT(opened(folder / name, O_WRONLY | O_TRUNC), Catch::StartsWith(said));
    CHECK_THAT(message_of([&] { write_own_file(folder / name, "x"); }), Catch::StartsWith(said));
    CHECK_THAT(message_of([&] { FileWriter writer(folder / name); }), Catch::StartsWith(said));
  }
  CHECK(read_file(folder / "precious") == "precious");
}

TEST_CASE("what is no regular file is not waited for, nor written to") {
  const Folder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  fs::create_symlink("pipe", folder / "link");
  for (const char* name : {"pipe", "link"}) {
    const std::string said = (folder / name).string() + ": cannot write: it is a pipe";
    CHECK(opened(folder / name, O_WRONLY) == said);
    CHECK(message_of([&] { write_own_file(folder / name, "x"); }) == said);
    CHECK(message_of([&] { FileWriter writer(folder / name); }) == said);
  }
  CHECK_THAT(opened("/dev/null", O_WRONLY), Catch::Contains("it is a device"));
  CHECK_THAT(message_of([&] { write_own_file(folder / "", "x"); }),
             Catch::Contains("it is a folder"));
  CHECK(opened(folder / "none", O_WRONLY) == "No such file or directory");
}

TEST_CASE("a path is taken by a file or a broken link, not by a device, a pipe or a link to one") {
  const Folder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  fs::create_symlink("pipe", folder / "link");
  fs::create_symlink("/dev/null", folder / "null");
  fs::create_symlink("none", folder / "broken");
  for (const char* name : {"pipe", "link", "null", "new"}) {
    INFO(name);
    CHECK_NOTHROW(require_free_path(folder / name, false));
  }
  write_file_atomically(folder / "file", "x");
  fs::create_symlink("file", folder / "near");
  for (const char* name : {"file", "near", "broken"}) {
    CHECK_THROWS_WITH(require_free_path(folder / name, false),
                      (folder / name).string() + " exists already");
    CHECK_NOTHROW(require_free_path(folder / name, true));
  }
}
