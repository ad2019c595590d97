// time_collectives: measures collectives of equal tensors alternately over Gloo and through shared
// memory. The process is one rank of a job on this machine. It needs the environment variables
// (RANK, WORLD_SIZE, ...) of am-run's ranks. Rank 0 prints the best times of each collective, or
// with --mean the mean times. scripts/bench/collectives.py starts this program.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "am/compat/distributed.h"
#include "am/runtime/channel.h"

namespace {

using namespace am::runtime;

double milliseconds_of(const Group& group, const std::function<void()>& collective) {
  group.barrier();
  const auto start = std::chrono::steady_clock::now();
  collective();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  return took.count();
}

// Connections over Gloo or through shared memory.
struct Way {
  Group group;
  Channels channels;  // two ranks only: one channel in each direction
};

struct Case {
  const char* name;
  std::function<void(const Way&)> run;
};

// Sends a message from rank 0 to rank 1, then one back.
void there_and_back(const Channels& channels, const at::Tensor& message, int64_t index) {
  const Channel& forth = channels.at({0, 1});
  const Channel& back = channels.at({1, 0});
  if (index == 0) forth.send(message).wait();
  (index == 0 ? back : forth).receive(message).wait();
  if (index == 1) back.send(message).wait();
}

// Returns the mean time if `mean` is set, otherwise the best time, which approximates a collective
// on idle cores.
double summary(const std::vector<double>& times, bool mean) {
  return mean ? std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size())
              : *std::min_element(times.begin(), times.end());
}

void compare(const Way& gloo, const Way& shared, int64_t bytes, bool mean) {
  const int64_t numel = bytes / 4;
  const int64_t size = shared.group.size();
  const at::Tensor whole = at::ones({numel});
  const at::Tensor part = at::ones({numel / size});
  const at::Tensor other = at::empty({numel});
  const std::vector<int64_t> rows(static_cast<size_t>(size), numel / size);
  std::vector<Case> cases = {
      {"all_gather", [&](const Way& way) { way.group.all_gather(whole, part); }},
      {"reduce_scatter", [&](const Way& way) { way.group.reduce_scatter(part, whole); }},
      {"all_reduce", [&](const Way& way) { way.group.all_reduce(whole, ReduceOp::kMax); }},
      {"all_to_all", [&](const Way& way) { way.group.all_to_all(other, whole, rows, rows); }},
      {"rotate", [&](const Way& way) { way.group.rotate(other, whole); }}};
  if (size == 2) {
    cases.push_back({"there and back", [&](const Way& way) {
                       there_and_back(way.channels, whole, way.group.index());
                     }});
  }
  const int repeats = bytes < (1 << 22) ? 60 : 15;
  for (const Case& each : cases) {
    std::vector<double> over_gloo, through_memory;
    for (int i = 0; i < repeats; ++i) {
      over_gloo.push_back(milliseconds_of(gloo.group, [&] { each.run(gloo); }));
      through_memory.push_back(milliseconds_of(shared.group, [&] { each.run(shared); }));
    }
    const double slow = summary(over_gloo, mean);
    const double fast = summary(through_memory, mean);
    if (shared.group.index() == 0) {
      std::printf(
          "%2ld ranks %6ld KiB  %-14s  gloo %9.3f ms  shared memory %9.3f ms  ratio %6.2f\n",
          static_cast<long>(size), static_cast<long>(bytes >> 10), each.name, slow, fast,
          slow / fast);
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const bool mean = argc > 1 && std::string_view(argv[1]) == "--mean";
    at::set_num_threads(1);
    am::compat::Distributed dist;
    dist.join({.timeout = std::chrono::seconds(60)});
    const World& world = dist.world();
    std::vector<int64_t> ranks(static_cast<size_t>(world.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    const auto make = [&](const std::string& name) {
      Way way = {world.new_group(name, ranks, {world.timeout()}, "gloo"), {}};
      GroupOptions options = {world.timeout()};
      options.messages_only = true;
      for (int64_t from = 0; world.size() == 2 && from < 2; ++from) {
        const auto between = name + (from == 0 ? " forth" : " back");
        way.channels.emplace(Hop{from, 1 - from},
                             Channel(world.new_group(between, {from, 1 - from}, options, "gloo")));
      }
      return way;
    };
    const Way shared = make("shared");
    // Set before the groups over Gloo are created, because creating a group reads this variable.
    ::setenv("AM_SHARED_MEMORY", "0", 1);
    const Way gloo = make("gloo");
    for (const int64_t bytes : {64 << 10, 1 << 20, 16 << 20}) compare(gloo, shared, bytes, mean);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
