#include "am/control/place.h"

#include <sys/stat.h>

#include <fstream>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "control/hostile_peer.h"

namespace am::control {
namespace {

namespace fs = std::filesystem;

unsigned mode_of(const fs::path& path) {
  struct stat info = {};
  REQUIRE(::lstat(path.c_str(), &info) == 0);
  return info.st_mode & 07777U;
}

fs::path deep_folder(const fs::path& root) {
  fs::path folder = root;
  while (folder.native().size() < 200) folder /= "a-folder-of-a-run";
  fs::create_directories(folder);
  return folder;
}

TEST_CASE("a job's place is the user's alone, and gone when it ends") {
  const Scratch scratch;
  const run_folder::RunFolder run(scratch.path);
  {
    const ControlPlace place(run);
    CHECK(place.address().socket == scratch.path / "control/rank-0.sock");
    CHECK(mode_of(scratch.path / "control") == 0700);
    CHECK(mode_of(place.address().socket) == 0600);
    CHECK(mode_of(scratch.path / "control/control.json") == 0600);
    const auto found = find_job(run);
    REQUIRE(found);
    CHECK(found->here);
    fs::rename(place.address().socket, scratch.path / "away");
    CHECK_FALSE(find_job(run));  // the process is alive, but its socket is missing
    fs::rename(scratch.path / "away", place.address().socket);
    CHECK(found->address.pid == ::getpid());
    CHECK(found->address.socket == place.address().socket);
  }
  CHECK_FALSE(find_job(run));
  CHECK(fs::is_empty(scratch.path));
}

TEST_CASE("a folder that others could enter is mended, one of another kind is refused") {
  const Scratch scratch;
  const run_folder::RunFolder run(scratch.path);
  fs::create_directory(run.control());
  fs::permissions(run.control(), fs::perms::all);
  {
    const ControlPlace place(run);
    CHECK(mode_of(run.control()) == 0700);
  }
  fs::remove_all(run.control());
  fs::create_directory_symlink("/tmp", run.control());
  CHECK_THROWS_AS(ControlPlace(run), Error);
}

TEST_CASE("a socket whose path is too long lies in a runtime folder of the user") {
  const Scratch scratch;
  const run_folder::RunFolder run(deep_folder(scratch.path));
  const fs::path open_to_all = scratch.path / "open";
  fs::create_directory(open_to_all);
  fs::permissions(open_to_all, fs::perms::all);
  const fs::path own = scratch.path / "own";
  {
    ControlPlace place(run, {open_to_all, own});
    CHECK(place.address().socket.parent_path() == own);
    CHECK(mode_of(own) == 0700);
    CHECK(find_job(run)->address.socket == place.address().socket);
    Server server(place.take_socket(), {});
    server.start();
    const Client client(find_job(run)->address, Json::object(), std::chrono::seconds(5));
  }
  CHECK(fs::is_empty(own));
  CHECK_THROWS_WITH(ControlPlace(run, {open_to_all}),
                    Catch::Contains("must be accessible only to this user"));
}

TEST_CASE("what dead jobs left is removed, and what lives is not") {
  const Scratch scratch;
  const run_folder::RunFolder run(scratch.path);
  fs::create_directories(run.control());
  std::ofstream(run.control() / "rank-0.sock") << "not even a socket";
  std::ofstream(run.control() / "control.json") << "{";
  CHECK_FALSE(find_job(run));
  const fs::path own = scratch.path / "own";
  const run_folder::RunFolder deep(deep_folder(scratch.path / "deep"));
  const run_folder::RunFolder other(deep_folder(scratch.path / "other"));
  const ControlPlace lives(deep, {own});
  const fs::path dead = own / "0123456789abcdef.sock";
  {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, dead.c_str(), dead.native().size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    ::close(fd);  // the socket file remains, as after the death of a process
  }
  const ControlPlace place(run);
  CHECK(find_job(run));
  CHECK(fs::exists(dead));  // find_job() does not look into this folder
  const ControlPlace second(other, {own});
  CHECK_FALSE(fs::exists(dead));
  CHECK(fs::exists(lives.address().socket));
}

TEST_CASE("a job of a dead process, another boot or another machine") {
  const Scratch scratch;
  const run_folder::RunFolder run(scratch.path);
  fs::create_directories(run.control());
  Json json = {{"protocol", 1},        {"host", host_name()}, {"pid", ::getpid()}, {"begun", 1},
               {"boot_id", boot_id()}, {"socket", "/s"},      {"slurm_job", ""}};
  const auto write = [&] {
    write_file_atomically(run.control() / "control.json", dump_json(json));
  };
  write();
  CHECK_FALSE(find_job(run));  // another process reused the id
  json["host"] = "node-7";
  json["boot_id"] = "another";
  write();
  CHECK_FALSE(find_job(run));  // the run folder has no lock file
  write_file_atomically(scratch.path / "lock", "held");
  const auto found = find_job(run);
  REQUIRE(found);
  CHECK_FALSE(found->here);
  CHECK(way_to(found->address, "/runs/a") == "ssh node-7 am-repl /runs/a");
  json["slurm_job"] = "4711";
  write();
  CHECK(way_to(find_job(run)->address, "/runs/a") ==
        "srun --overlap --jobid 4711 --nodelist node-7 --ntasks 1 --pty am-repl /runs/a");
  fs::last_write_time(scratch.path / "lock",
                      fs::file_time_type::clock::now() - std::chrono::minutes(5));
  CHECK_FALSE(find_job(run));  // the lock file is too old
}

}  // namespace
}  // namespace am::control
