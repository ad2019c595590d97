// ctest: waits
#include "am/observe/loggers.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>

#include "am/base/descriptor.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "support/temporary_folder.h"

using namespace am;
using namespace am::observe;
using namespace std::chrono_literals;

namespace {

// Runs shell scripts as loggers, and collects the notes about them.
class Shells {
 public:
  explicit Shells(const std::vector<std::string>& scripts) {
    std::vector<LoggerCommand> commands;
    for (const std::string& script : scripts) {
      const std::string name = cat("shell", commands.size());
      commands.push_back({name, {"sh", "-c", script}, folder / (name + ".log")});
    }
    loggers.emplace(commands, [this](const std::string& line) { notes.push_back(line); });
  }

  // Calls check() until there is a note.
  void await_note() {
    for (int i = 0; i < 500 && notes.empty(); ++i) {
      loggers->check();
      std::this_thread::sleep_for(10ms);
    }
    REQUIRE(notes.size() == 1);
  }
  double seconds_to_finish(std::chrono::milliseconds patience) {
    const auto start = std::chrono::steady_clock::now();
    loggers->finish(patience);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::string log(int number = 0) const {
    return std::string(trim(read_file(folder / cat("shell", number, ".log"))));
  }
  // Returns the process id that a script wrote to its log.
  pid_t pid(int number = 0) const {
    for (int i = 0; i < 500 && log(number).empty(); ++i) std::this_thread::sleep_for(10ms);
    return static_cast<pid_t>(std::stol(log(number)));
  }

  TemporaryFolder folder;
  std::vector<std::string> notes;
  std::optional<Loggers> loggers;
};

bool is_alive(pid_t pid) { return ::kill(pid, 0) == 0; }

// Returns whether a process ends within 5 seconds; if `pid` is negative, whether the process group
// -pid does. A killed process exists until its parent has reaped it.
bool ends(pid_t pid) {
  for (int i = 0; i < 500 && is_alive(pid); ++i) std::this_thread::sleep_for(10ms);
  return !is_alive(pid);
}

}  // namespace

TEST_CASE("a logger ends when its pipe ends, without a note") {
  Shells shells({"cat; echo over", "cat"});
  shells.loggers->check();
  CHECK(shells.seconds_to_finish(10s) < 5.0);
  CHECK(shells.log() == "over");
  CHECK(shells.notes.empty());
}

TEST_CASE("a logger that dies is noted once, with the last line of its log") {
  Shells shells({"echo one; echo 'no module wandb' >&2; exit 3"});
  shells.await_note();
  CHECK_THAT(shells.notes[0], Catch::Contains("shell0 has ended (exit status 3): no module wandb"));
  CHECK_THAT(shells.notes[0], Catch::Contains("shell0.log"));
  shells.loggers->check();
  CHECK(shells.seconds_to_finish(10s) < 1.0);
  CHECK(shells.notes.size() == 1);

  Shells killed({"kill -KILL $$"});
  killed.await_note();
  CHECK_THAT(killed.notes[0], Catch::Contains("(signal 9)"));
  Shells early({"exit 0"});
  early.await_note();
  CHECK_THAT(early.notes[0], Catch::Contains("(exit status 0)"));
  Shells late({"cat; exit 1"});
  late.seconds_to_finish(10s);
  REQUIRE(late.notes.size() == 1);
  CHECK_THAT(late.notes[0], Catch::Contains("(exit status 1)"));
}

TEST_CASE("the note of a logger does not quote an earlier process") {
  const TemporaryFolder folder;
  write_text(folder / "a.log", "an old error\n");
  std::vector<std::string> notes;
  Loggers loggers({{"a", {"false"}, folder / "a.log"}},
                  [&](const std::string& line) { notes.push_back(line); });
  loggers.finish(10s);
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], Catch::Contains("a has ended (exit status 1); its log: "));
}

TEST_CASE(
    "loggers that ignore the end of the job are killed with their children, and others are not") {
  Shells shells({"trap '' TERM; echo $$; sleep 600; sleep 600", "(echo $$; exec sleep 600) & cat"});
  const pid_t first = shells.pid(0);
  const double seconds = shells.seconds_to_finish(300ms);
  CHECK((seconds >= 0.3 && seconds < 2.0));
  REQUIRE(shells.notes.size() == 1);
  CHECK_THAT(shells.notes[0], Catch::Contains("shell0 did not end within 0.3 s and was killed"));
  CHECK_FALSE(is_alive(first));
  CHECK(ends(-first));  // the logger's process group, which includes sleep
  CHECK(is_alive(-shells.pid(1)));
  ::kill(-shells.pid(1), SIGKILL);
}

TEST_CASE("a stopped logger does not block") {
  Shells shells({"echo $$; kill -STOP $$; cat"});
  const pid_t pid = shells.pid();
  shells.loggers->check();
  CHECK(shells.seconds_to_finish(200ms) < 2.0);
  CHECK_FALSE(is_alive(pid));
}

TEST_CASE("loggers outlive a job that ends without finish()") {
  Shells shells({"echo $$; cat; exec sleep 600"});
  const pid_t pid = shells.pid();
  shells.loggers.reset();
  const std::string name = cat("/proc/", pid, "/comm");
  for (int i = 0; i < 500 && read_file(name) != "sleep\n"; ++i) std::this_thread::sleep_for(10ms);
  CHECK(read_file(name) == "sleep\n");  // cat has read the pipe's end; the script continues
  CHECK(shells.notes.empty());
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

TEST_CASE(
    "a logger has its own session, no inherited descriptors and no blocked or ignored signals") {
  const TemporaryFolder folder;
  const int inherited = ::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY);  // no O_CLOEXEC
  const Descriptor closes(inherited);
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  auto* const handler = std::signal(SIGPIPE, SIG_IGN);
  {
    // sed is started without a shell, because a shell would unblock signals.
    Loggers signals({{"signals",
                      {"sed", "-nE", "s/^Sig(Blk|Ign):.*(.{7})$/\\2/p", "/proc/self/status"},
                      folder / "signals"}},
                    [](const std::string&) {});
    signals.finish(10s);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::signal(SIGPIPE, handler);
  CHECK(read_file(folder / "signals") == "0000000\n0000000\n");
  Shells shells({"ls /proc/$$/fd; test $(ps -o sid= $$) = $$ && echo leads; cat"});
  shells.seconds_to_finish(10s);
  CHECK(shells.log() == "0\n1\n2\nleads");
}

TEST_CASE("a logger that cannot be started is noted, and the others run") {
  const TemporaryFolder folder;
  std::vector<std::string> notes;
  Loggers loggers({{"a", {"/nonexistent/python"}, folder / "a.log"},
                   {"b", {"true"}, folder / "missing/b.log"},
                   {"c", {"sh", "-c", "cat; echo over"}, folder / "c.log"}},
                  [&](const std::string& line) { notes.push_back(line); });
  loggers.finish(10s);
  REQUIRE(notes.size() == 2);
  CHECK(notes[0] ==
        "nothing is sent to a: cannot start /nonexistent/python: No such file or directory");
  CHECK_THAT(notes[1], Catch::Contains("nothing is sent to b: "));
  CHECK(read_file(folder / "c.log") == "over\n");
}

TEST_CASE("loggers of services are scripts of the Python package") {
  ::setenv("AM_PYTHON", "/opt/python", 1);
  const auto commands = logger_commands({"wandb", "comet"}, "/runs/first", "/runs/first/logs", 7);
  ::unsetenv("AM_PYTHON");
  REQUIRE(commands.size() == 2);
  CHECK(commands[1].name == "comet");
  CHECK(commands[1].log == "/runs/first/logs/logger-comet.log");
  const auto& argv = commands[0].argv;
  REQUIRE(argv.size() == 5);
  CHECK(argv[0] == "/opt/python");
  CHECK(std::filesystem::exists(argv[2]));
  CHECK(argv[3] == "/runs/first");
  CHECK(argv[4] == "7");
}
