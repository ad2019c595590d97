// many_hangs [RANKS [GROUP]] [--beside N] [--json]: tests how a hang is diagnosed. RANKS (default:
// 1024) real watchdogs use a real store. In each group of GROUP ranks (default: all), one rank does
// not join a collective, and all other ranks must name the missing rank. In addition, N (default:
// 0) simulated ranks wait in late collectives of groups of 64.
//
// Prints a row for each measured figure and its bound, or lines of JSON. Returns exit status 1 if a
// figure exceeds its bound. The ranks are threads of this process, so only counts and CPU seconds
// are meaningful.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "am/launch/cause/rank_state.h"
#include "am/launch/environment/open_files.h"
#include "am/launch/nodes/store_server.h"
#include "am/runtime/fake_engine.h"
#include "am/runtime/store.h"
#include "am/runtime/watchdog.h"
#include "tools/gates.h"
#include "tools/idle_ranks.h"

namespace {

using namespace am;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Settings {
  int64_t ranks = 1024;
  int64_t group = 0;  // number of ranks per group; 0: all ranks
  int64_t beside = 0;
  bool json = false;

  // Returns the time limit of the collective. The limit grows with the number of ranks, because
  // each watchdog publishes twenty times per limit and all watchdogs share this machine. Real jobs
  // of this size have limits of minutes.
  milliseconds limit() const { return seconds(8) * std::max<int64_t>(1, ranks / 1024); }
};

// A connecting rank needs more descriptors than a connected one, so ranks connect in batches.
constexpr int64_t kBatch = 1024;

struct Tally {
  std::atomic<int64_t> connected = 0;
  std::atomic<int64_t> batches = 0;  // number of batches whose ranks may connect their watchdogs
  std::atomic<int64_t> ready = 0;
  std::atomic<int64_t> named = 0;
  std::atomic<int64_t> told = 0;
  std::atomic<bool> go = false;
  std::atomic<bool> over = false;
  std::mutex mutex;
  double last = 0.0;  // time of the last verdict, in seconds after the limit
  std::string other;  // error text of a rank that did not name the missing rank
};

// Sleeps until the flag is set. Thousands of threads that poll the flag would leave no processor
// time for the threads that still connect.
void wait_until(const std::atomic<bool>& flag) { flag.wait(false); }

void raise(std::atomic<bool>& flag) {
  flag = true;
  flag.notify_all();
}

void wait_for(const std::atomic<int64_t>& count, int64_t wanted) {
  while (count < wanted) std::this_thread::sleep_for(milliseconds(5));
}

// Attempt number (restart) of the real ranks; the simulated ranks use attempt 0.
constexpr int64_t kAttempt = 1;

void live(int port, const Settings& settings, int64_t rank, Tally& tally) {
  launch::RankEnvironment here;
  here.rank = here.local_rank = rank;
  here.world_size = here.local_world_size = settings.ranks;
  here.master_port = port;
  here.agent_store = true;
  here.restart_count = kAttempt;
  const auto store = runtime::connect_store(here, seconds(120));
  ++tally.connected;
  const auto world = runtime::World::meet_in(here, store, {.timeout = seconds(120)},
                                             {.cpu = runtime::fake_engine()});
  for (int64_t batches = tally.batches; rank / kBatch >= batches; batches = tally.batches) {
    tally.batches.wait(batches);
  }
  runtime::WatchdogOptions options;
  options.interval = launch::state_interval(settings.limit(), settings.ranks);
  const runtime::Watchdog watchdog(world, options);
  auto id = *world.group().communicator()->id;
  id.timeout = settings.limit();
  const int64_t first = rank - rank % settings.group;
  const int64_t missing = first + settings.group / 2;
  id.name = cat("mesh/0/dp/", first);
  id.ranks.clear();
  for (int64_t each = first; each < first + settings.group; ++each) id.ranks.push_back(each);
  const runtime::Collective collective = {
      "all_reduce", "dp", std::make_shared<const runtime::CommunicatorId>(std::move(id)), 41};
  ++tally.ready;
  wait_until(tally.go);
  if (rank == missing) return wait_until(tally.over);
  const auto limit = Clock::now() + settings.limit();
  world.progress().issued(collective);
  world.progress().wait_begins(collective);
  std::this_thread::sleep_until(limit);
  const runtime::Stall stall = world.context()->explain(collective, /*timed_out=*/true);
  const double after = std::chrono::duration<double>(Clock::now() - limit).count();
  const bool named = stall.missing == std::vector<int64_t>{missing};
  tally.named += named ? 1 : 0;
  ++tally.told;
  {
    const std::lock_guard lock(tally.mutex);
    tally.last = std::max(tally.last, after);
    if (!named) tally.other = cat("rank ", rank, ": ", stall.text);
  }
  wait_until(tally.over);
}

int try_hang(const Settings& settings) {
  const auto [ranks, size, beside, json] = settings;
  const milliseconds limit = settings.limit();
  constexpr int64_t kGroupBeside = 64;
  test::IdleRanks others(beside, {.interval = launch::state_interval(limit, kGroupBeside),
                                  .late_group = kGroupBeside});  // forks, so created before threads
  launch::raise_open_files(64 + 4 * ranks + beside);
  launch::StoreServer server(0, launch::BindScope::kThisMachine);
  test::Gates gates(beside > 0 ? cat("hang/", size, "+", beside) : cat("hang/", size));
  Tally tally;
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        live(server.port(), settings, rank, tally);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %ld: %s\n", static_cast<long>(rank), error.what());
        std::_Exit(1);
      }
    });
    if ((rank + 1) % kBatch == 0) wait_for(tally.connected, rank + 1);
  }
  for (int64_t done = 0; done < ranks; done += kBatch) {
    ++tally.batches;
    tally.batches.notify_all();
    wait_for(tally.ready, std::min(ranks, done + kBatch));
  }
  if (beside > 0) {
    gates.equal("simulated ranks beside", static_cast<double>(others.connect(server.port())),
                static_cast<double>(beside));
  }
  std::this_thread::sleep_for(seconds(1));
  raise(tally.go);
  std::this_thread::sleep_for(limit / 2);
  const launch::StoreLoad late = server.load();
  std::this_thread::sleep_for(limit / 2 - milliseconds(50));
  const launch::StoreLoad at_limit = server.load();
  const int64_t waiters = ranks - ranks / size;
  const auto start = Clock::now();
  while (tally.told < waiters && Clock::now() - start < seconds(60)) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  const launch::StoreLoad end = server.load();
  size_t largest = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const auto state = server.get(launch::state_key_in_store(kAttempt, rank));
    if (state) largest = std::max(largest, state->size());
  }
  raise(tally.over);
  for (std::thread& thread : threads) thread.join();

  gates.equal("ranks that name the one that is missing", static_cast<double>(tally.named),
              static_cast<double>(waiters));
  // Checks the bound only without simulated ranks, because the store counts their requests too.
  const char* requests = "requests from half of the time limit on";
  const auto made = static_cast<double>(end.requests - late.requests);
  if (beside > 0) {
    gates.tell(requests, made);
  } else {
    gates.at_most(requests, made,
                  19.0 * static_cast<double>(ranks) + 100.0 * static_cast<double>(ranks / size));
  }
  gates.tell("  of them after the limit", static_cast<double>(end.requests - at_limit.requests));
  gates.tell("sent by the store", static_cast<double>(end.bytes_sent - late.bytes_sent) / 1e6,
             "MB");
  gates.tell("processor of the store", end.processor_seconds - late.processor_seconds, "s");
  gates.at_most("largest state of a rank", static_cast<double>(largest), 1024.0, "B");
  gates.tell("last verdict after the limit", tally.last, "s");
  gates.print(json);
  if (!tally.other.empty()) std::fprintf(stderr, "%s\n", tally.other.c_str());
  return gates.status();
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  std::vector<int64_t> sizes;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--json") {
      settings.json = true;
    } else if (std::string_view(argv[i]) == "--beside" && i + 1 < argc) {
      settings.beside = std::atol(argv[++i]);
    } else {
      sizes.push_back(std::atol(argv[i]));
    }
  }
  if (!sizes.empty()) settings.ranks = sizes[0];
  settings.group = sizes.size() < 2 ? settings.ranks : sizes[1];
  if (sizes.size() > 2 || settings.group < 2 || settings.ranks < settings.group ||
      settings.ranks % settings.group != 0 || settings.beside < 0) {
    std::fprintf(
        stderr,
        "usage: many_hangs [RANKS [GROUP]] [--beside N] [--json], GROUP a divisor of RANKS\n");
    return 2;
  }
  return try_hang(settings);
}
