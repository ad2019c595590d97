// Tests that a launcher computes the number of file descriptors that it needs, and reports an error
// if the limit is too low.
#include "am/launch/environment/open_files.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "am/base/error.h"
#include "am/base/file.h"
#include "launch/open_file_limit.h"
#include "launch/supervise/job_support.h"

using namespace am;
using namespace am::launch;
using namespace launch_test;

namespace {

// Runs `body` in a child process and returns the result of `body`. The test's own process must not
// run `body`: a lowered hard limit cannot be raised again, and a process stores its original soft
// limit only once.
template <typename Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a launcher needs three descriptors for each rank that it serves") {
  CHECK(open_files_of_launcher({.ranks_here = 8}) == 64 + 3 * 8);
  CHECK(
      open_files_of_launcher({.ranks_here = 8, .ranks_served = 16384, .launchers_served = 2047}) ==
      64 + 2047 + 3 * 16384);
  CHECK(open_files_of_launcher({.ranks_here = 200}) == 32 + 2 * 200 + 3 * 200);
}

TEST_CASE("a launcher that may not have its descriptors names both numbers") {
  const LauncherFiles files = {.ranks_here = 8, .ranks_served = 2000};
  CHECK_FALSE(open_files_problem(files, {1024, 6064}));
  CHECK(
      open_files_problem(files, {1024, 6063}) ==
      "the launcher needs 6064 open files and connections, including 3 for each of the 2000 ranks "
      "that connect to it, but may have only 6063");
  CHECK(in_child([] {
          const OpenFiles limit(256, 256);
          raise_open_files(300);  // no effect: the hard limit is 256
          try {
            require_open_files({.ranks_here = 100});
          } catch (const Error& error) {
            const std::string words = error.what();
            const bool both =
                words.find("needs 532 open files") != std::string::npos &&
                words.find("may have only 256; no rank was started") != std::string::npos;
            const bool way_out = error.hint().find("ulimit -Hn 532") != std::string::npos;
            return error.kind() == ErrorKind::kPlan && both && way_out ? 0 : 1;
          }
          return 2;
        }) == 0);
}

TEST_CASE("the soft limit is raised where it is too low, and ranks get the one from before") {
  const TemporaryFolder folder;
  JobSpec job = shell_job(folder, 1, "ulimit -Sn > $DIR/soft; ulimit -Hn > $DIR/hard");
  CHECK(in_child([&] {
          const OpenFiles limit(200, 400);
          raise_open_files(100);
          if (open_file_limit().soft != 200) return 3;
          require_open_files({.ranks_here = 1, .ranks_served = 100});
          if (open_file_limit().soft != 400) return 4;
          return supervise(job, {}).exit_status;
        }) == 0);
  CHECK(read_file(folder / "soft") == "200\n");
  CHECK(read_file(folder / "hard") == "400\n");
}
