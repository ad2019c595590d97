#include "am/launch/environment/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <limits>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::launch {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// The soft limit before raise_open_files() first raised it; 0 if it was never raised.
std::atomic<rlim_t> g_first_soft = 0;

int64_t number(rlim_t limit) {
  return limit == RLIM_INFINITY || limit > static_cast<rlim_t>(kUnlimited)
             ? kUnlimited
             : static_cast<int64_t>(limit);
}

}  // namespace

OpenFileLimit open_file_limit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {kUnlimited, kUnlimited};
  return {number(limit.rlim_cur), number(limit.rlim_max)};
}

OpenFileLimit raise_open_files(int64_t wanted) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {kUnlimited, kUnlimited};
  const OpenFileLimit before = {number(limit.rlim_cur), number(limit.rlim_max)};
  if (before.soft >= wanted || before.soft == before.hard) return before;
  rlim_t none = 0;
  g_first_soft.compare_exchange_strong(none, limit.rlim_cur);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return before;
}

void restore_open_files() {
  rlimit limit = {};
  const rlim_t soft = g_first_soft;
  if (soft == 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = soft;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int64_t open_files_of_launcher(const LauncherFiles& files) {
  const int64_t own = std::max<int64_t>(64, 32 + 2 * files.ranks_here);
  return own + files.launchers_served + 3 * std::max(files.ranks_served, files.ranks_here);
}

int64_t open_files_of_rank(int64_t world_size) { return 64 + 2 * world_size; }

std::optional<std::string> open_files_problem(const LauncherFiles& files,
                                              const OpenFileLimit& limit) {
  const int64_t wanted = open_files_of_launcher(files);
  if (limit.hard >= wanted) return std::nullopt;
  const bool serves = files.ranks_served > files.ranks_here;
  return cat("the launcher needs ", wanted,
             " open files and connections, including 3 for each of the ",
             serves ? files.ranks_served : files.ranks_here, " ranks ",
             serves ? "that connect to it" : "here", ", but may have only ", limit.hard);
}

std::string open_files_help(int64_t wanted) {
  return cat("raise the hard limit: ulimit -Hn ", wanted,
             " as root, or LimitNOFILE= of a service, or nofile in /etc/security/limits.conf");
}

void require_open_files(const LauncherFiles& files) {
  const int64_t wanted = open_files_of_launcher(files);
  if (const auto problem = open_files_problem(files, open_file_limit())) {
    throw Error(ErrorKind::kPlan, cat(*problem, "; no rank was started"), open_files_help(wanted));
  }
  raise_open_files(wanted);
}

}  // namespace am::launch
