// time_collectives: as one rank of a job on this machine (RANK, WORLD_SIZE, ... as for am-run),
// times collectives of the same tensors over Gloo and through shared memory, in turn; rank 0 prints
// a line each. scripts/bench/collectives.py starts it.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <numeric>
#include <vector>

#include "am/compat/distributed.h"

namespace {

using namespace am::runtime;

double milliseconds_of(const Group& group, const std::function<void()>& collective) {
  group.barrier();
  const auto start = std::chrono::steady_clock::now();
  collective();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  return took.count();
}

struct Case {
  const char* name;
  std::function<void(const Group&)> run;
};

void compare(const Group& gloo, const Group& shared, int64_t bytes) {
  const int64_t numel = bytes / 4;
  const int64_t size = shared.size();
  const at::Tensor whole = at::ones({numel});
  const at::Tensor part = at::ones({numel / size});
  const std::vector<Case> cases = {
      {"all_gather", [&](const Group& group) { group.all_gather(whole, part); }},
      {"reduce_scatter", [&](const Group& group) { group.reduce_scatter(part, whole); }},
      {"all_reduce", [&](const Group& group) { group.all_reduce(whole, ReduceOp::kMax); }}};
  const int repeats = bytes < (1 << 22) ? 60 : 15;
  for (const Case& each : cases) {
    std::vector<double> over_gloo, through_memory;
    for (int i = 0; i < repeats; ++i) {
      over_gloo.push_back(milliseconds_of(gloo, [&] { each.run(gloo); }));
      through_memory.push_back(milliseconds_of(shared, [&] { each.run(shared); }));
    }
    // The best: what the collective takes where nothing else has the cores.
    const double slow = *std::min_element(over_gloo.begin(), over_gloo.end());
    const double fast = *std::min_element(through_memory.begin(), through_memory.end());
    if (shared.index() == 0) {
      std::printf(
          "%2ld ranks %6ld KiB  %-14s  gloo %9.3f ms  shared memory %9.3f ms  ratio %6.2f\n",
          static_cast<long>(size), static_cast<long>(bytes >> 10), each.name, slow, fast,
          slow / fast);
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main() {
  try {
    at::set_num_threads(1);
    am::compat::Distributed dist;
    dist.join({.timeout = std::chrono::seconds(60)});
    const World& world = dist.world();
    // An engine reads the variable as it is made.
    ::setenv("AM_SHARED_MEMORY", "0", 1);
    std::vector<int64_t> ranks(static_cast<size_t>(world.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    const Group gloo = world.new_group("gloo", ranks, {world.timeout()}, "gloo");
    for (const int64_t bytes : {64 << 10, 1 << 20, 16 << 20}) compare(gloo, world.group(), bytes);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
