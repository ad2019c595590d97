// join_ranks N [SECONDS]: lets N processes join one job at the same time and leave it again. Prints
// the time in which the store served all processes; fails if a process cannot join within SECONDS
// (default: 60).
//
// The processes are forked before the store starts, so that the time covers only joining.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <vector>

#include "am/launch/nodes/store_server.h"
#include "am/runtime/store.h"

namespace {

using namespace am;

int join(int64_t rank, const std::vector<int64_t>& ranks, int start_fd,
         std::chrono::seconds limit) {
  int port = 0;
  if (::read(start_fd, &port, sizeof(port)) != sizeof(port)) return 1;
  try {
    launch::RankEnvironment here;
    here.rank = here.local_rank = rank;
    here.world_size = here.local_world_size = static_cast<int64_t>(ranks.size());
    here.master_port = port;
    here.agent_store = true;
    const auto store = runtime::connect_store(here, limit);
    runtime::meet(*store, "join", rank, ranks, limit);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %ld: %s\n", static_cast<long>(rank), error.what());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t size = argc > 1 ? std::atol(argv[1]) : 0;
  const std::chrono::seconds limit(argc > 2 ? std::atol(argv[2]) : 60);
  if (size < 1) {
    std::fprintf(stderr, "usage: join_ranks N [SECONDS]\n");
    return 2;
  }
  std::vector<int64_t> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  int start[2];
  if (::pipe(start) != 0) return 1;
  for (const int64_t rank : ranks) {
    const pid_t child = ::fork();
    if (child < 0) {
      std::perror("fork");
      return 1;
    }
    if (child == 0) {
      ::close(start[1]);
      std::_Exit(join(rank, ranks, start[0], limit));
    }
  }
  const launch::StoreServer server(0, launch::BindScope::kThisMachine);
  const int port = server.port();
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < size; ++i) {
    if (::write(start[1], &port, sizeof(port)) != sizeof(port)) return 1;
  }
  ::close(start[1]);
  int failed = 0;
  for (int64_t i = 0; i < size; ++i) {
    int status = 0;
    ::wait(&status);
    failed += status == 0 ? 0 : 1;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%ld processes joined in %.2f s\n", static_cast<long>(size - failed), took.count());
  return failed == 0 ? 0 : 1;
}
