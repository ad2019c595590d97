// many_nodes nodes|descriptors [N] [--ranks R] [--lines L] [--json]: simulates a job of many
// machines on this one, with the classes of the real launcher and with idle ranks.
//
//   nodes         N launchers (default: 1000) of R ranks each (8) meet, idle, and are notified of
//                 the death of one rank; each rank's report has L lines (3) of its log
//   descriptors   N connections (2000) are made to a launcher with a soft limit of 1024 descriptors
//
// Prints a row for each measured figure, with its bound if it has one, or lines of JSON. Returns
// exit status 1 if a figure is outside its bound. Nodes are threads of this process: counts, bytes
// and CPU seconds are meaningful, but wall times depend on the machine's load.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/launch/environment/open_files.h"
#include "am/launch/nodes/background_store.h"
#include "am/launch/nodes/leave.h"
#include "am/launch/nodes/node_rendezvous.h"
#include "am/launch/nodes/peer_nodes.h"
#include "am/launch/nodes/same_job.h"
#include "am/launch/nodes/store_server.h"
#include "am/launch/nodes/stores.h"
#include "am/launch/supervise/wall_time.h"
#include "launch/open_file_limit.h"
#include "tools/gates.h"
#include "tools/idle_ranks.h"

namespace {

using namespace am;
using namespace am::launch;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

using test::kHere;

struct Settings {
  int64_t size = 0;   // number of nodes or connections; 0: the mode's default
  int64_t ranks = 8;  // number of ranks per node
  int64_t lines = 3;  // number of log lines in the report of each rank
  bool json = false;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double processor_seconds() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Counts the outcomes of all launchers.
struct Tally {
  std::atomic<int64_t> joined = 0;
  std::atomic<int64_t> right_cause = 0;
  std::atomic<int64_t> all_ends = 0;  // number of launchers that know how every rank ended
  std::atomic<int64_t> lost_store = 0;
  std::atomic<int64_t> called_silent = 0;
  std::mutex mutex;
  std::string loss;           // error of a launcher that lost the store
  double last_verdict = 0.0;  // time of the last verdict, in seconds after the rank's death
};

class Job {
 public:
  Job(const Settings& settings, std::shared_ptr<StoreServer> server)
      : settings_(settings), server_(std::move(server)) {}

  // Runs the launcher of one node.
  void live(int64_t node);
  void die() {
    died_ = Clock::now();
    dying_ = true;
  }
  Tally tally;

 private:
  int64_t victim() const { return settings_.size / 2; }
  NodeReport report(int64_t node) const;
  void count(const JobResult& result);

  const Settings settings_;
  const std::shared_ptr<StoreServer> server_;
  std::atomic<bool> dying_ = false;
  Clock::time_point died_;
};

// Returns the report of a node's launcher. The first rank of the node victim() was killed, and all
// other ranks were stopped.
NodeReport Job::report(int64_t node) const {
  NodeReport report;
  for (int64_t local = 0; local < settings_.ranks; ++local) {
    RankExit exit;
    exit.rank = node * settings_.ranks + local;
    exit.node = node;
    exit.time = wall_time();
    exit.log = cat("/run/job/logs/rank-", exit.rank, ".log");
    exit.stopped = node != victim() || local != 0;
    exit.signal = exit.stopped ? SIGTERM : SIGKILL;
    exit.tail.assign(static_cast<size_t>(settings_.lines), std::string(100, 'x'));
    report.ranks.push_back(std::move(exit));
  }
  return report;
}

void Job::count(const JobResult& result) {
  const bool right = result.cause && result.cause->rank == victim() * settings_.ranks &&
                     result.cause->node == victim();
  tally.right_cause += right ? 1 : 0;
  tally.all_ends +=
      static_cast<int64_t>(result.ranks.size()) == settings_.size * settings_.ranks ? 1 : 0;
  tally.lost_store += result.store_error.empty() ? 0 : 1;
  tally.called_silent += static_cast<int64_t>(result.silent_nodes.size());
  const std::lock_guard lock(tally.mutex);
  if (!result.store_error.empty()) tally.loss = result.store_error;
  tally.last_verdict = std::max(tally.last_verdict, seconds_since(died_));
}

void Job::live(int64_t node) {
  JobSpec spec;
  spec.nproc = settings_.ranks;
  spec.num_nodes = settings_.size;
  spec.node_rank = node;
  std::shared_ptr<KeyValueStore> store;
  if (node == 0) {
    store = std::make_shared<ServedStore>(server_);
  } else {
    store = std::make_shared<RemoteStore>(kHere, server_->port(), seconds(60));
  }
  BackgroundStore background(std::move(store), heartbeat_key(spec.run_id, node), seconds(10),
                             look_interval(spec.num_nodes));
  spec.store = &background;
  check_same_job(spec, 0);
  ++tally.joined;
  PeerNodes peers(spec);
  while (!peers.failure_elsewhere() && !(node == victim() && dying_)) {
    std::this_thread::sleep_until(
        std::min(peers.next_look(), Clock::now() + milliseconds(node == victim() ? 10 : 500)));
  }
  peers.abort_all();
  NodeReport own = report(node);
  peers.publish(own);
  peers.collect([] {
    std::this_thread::sleep_for(milliseconds(100));
    return false;
  });
  JobResult result;
  result.node_rank = node;
  result.num_nodes = spec.num_nodes;
  result.ranks = std::move(own.ranks);
  peers.judge(result);
  count(result);
  leave(spec, result);
}

int try_nodes(Settings settings) {
  if (settings.size == 0) settings.size = 1000;
  const int64_t ranks = settings.size * settings.ranks;
  raise_open_files(64 + ranks + 2 * settings.size);
  test::IdleRanks idle(ranks);  // created before threads, because it forks
  auto server = std::make_shared<StoreServer>(0, BindScope::kThisMachine);
  test::Gates gates("nodes");
  const auto start = Clock::now();
  const int64_t connected = idle.connect(server->port());
  gates.equal("ranks connected", static_cast<double>(connected), static_cast<double>(ranks));
  gates.tell("  after", seconds_since(start), "s");

  Job job(settings, server);
  const auto meeting = Clock::now();
  std::vector<std::thread> nodes;
  for (int64_t node = 0; node < settings.size; ++node) {
    nodes.emplace_back([&job, node] {
      try {
        job.live(node);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "node %ld: %s\n", static_cast<long>(node), error.what());
      }
    });
  }
  while (job.tally.joined < settings.size && seconds_since(meeting) < 120.0) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  gates.equal("launchers joined", static_cast<double>(job.tally.joined),
              static_cast<double>(settings.size));
  gates.tell("  after", seconds_since(meeting), "s");

  std::this_thread::sleep_for(seconds(3));
  const StoreLoad rest = server->load();
  const auto resting = Clock::now();
  std::this_thread::sleep_for(seconds(6));
  const StoreLoad rested = server->load();
  const double rest_seconds = seconds_since(resting);
  gates.tell("requests a second at rest",
             static_cast<double>(rested.requests - rest.requests) / rest_seconds);
  gates.at_most("the store's share of a processor at rest",
                100.0 * (rested.processor_seconds - rest.processor_seconds) / rest_seconds, 5.0,
                "%");

  const StoreLoad before = server->load();
  const double all_before = processor_seconds();
  job.die();
  nodes[0].join();  // node 0's launcher exits; then the store ends, as in a real job
  const StoreLoad after = server->load();
  idle.end();
  server.reset();
  for (size_t node = 1; node < nodes.size(); ++node) nodes[node].join();
  const auto all = static_cast<double>(settings.size);
  gates.equal("launchers that name the rank", static_cast<double>(job.tally.right_cause), all);
  gates.equal("launchers that know how every rank ended", static_cast<double>(job.tally.all_ends),
              all);
  gates.equal("launchers that lost the store", static_cast<double>(job.tally.lost_store), 0.0);
  gates.equal("nodes wrongly called silent", static_cast<double>(job.tally.called_silent), 0.0);
  gates.at_most("sent by node 0", static_cast<double>(after.bytes_sent - before.bytes_sent) / 1e6,
                20.0, "MB");
  gates.tell("requests", static_cast<double>(after.requests - before.requests));
  const double of_store = after.processor_seconds - before.processor_seconds;
  gates.tell("processor of the store", of_store, "s");
  gates.tell("processor of all launchers, which share this machine",
             processor_seconds() - all_before - of_store, "s");
  gates.tell("last verdict after the death", job.tally.last_verdict, "s");
  gates.print(settings.json);
  if (!job.tally.loss.empty()) std::fprintf(stderr, "%s\n", job.tally.loss.c_str());
  return gates.status();
}

// Opens many connections to a process with a soft limit of 1,024 descriptors. If the hard limit
// suffices, require_open_files() must raise the soft limit, so that all connections are served.
// Otherwise require_open_files() must throw an error that names the needed and the allowed number.
// Without require_open_files(), a store must serve as many connections as it can, and must use
// hardly any processor time while it is full.
int try_descriptors(const Settings& settings) {
  const int64_t size = settings.size == 0 ? 2000 : settings.size;
  test::Gates gates("descriptors");
  test::IdleRanks clients(size);
  const OpenFileLimit before = open_file_limit();
  const auto lower = [&](int64_t soft, int64_t hard) {
    const rlimit limit = {static_cast<rlim_t>(soft), static_cast<rlim_t>(hard)};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) throw Error(ErrorKind::kRuntime, "no limit");
  };
  const LauncherFiles files = {.ranks_here = 8, .ranks_served = (size + 2) / 3};
  lower(1024, before.hard);
  require_open_files(files);
  gates.at_most("needed beyond the raised limit",
                static_cast<double>(open_files_of_launcher(files) - open_file_limit().soft), 0.0);
  {
    const StoreServer server(0, BindScope::kThisMachine);
    gates.equal("connections served with a raised limit",
                static_cast<double>(clients.connect(server.port())), static_cast<double>(size));
  }
  clients.end();

  test::IdleRanks more(std::min<int64_t>(size, 1500), {.patience = milliseconds(100)});
  lower(1024, before.hard);
  launch_test::use_streams_once();
  std::atomic<int64_t> told = 0;
  const StoreServer crowded(0, BindScope::kThisMachine, [&](const std::string&) { ++told; });
  const auto start = Clock::now();
  const int64_t served = more.connect(crowded.port());
  gates.at_most("seconds to be refused by a full store", seconds_since(start), 30.0, "s");
  gates.at_most("connections of a full store", static_cast<double>(served), 1024.0);
  const StoreLoad full = crowded.load();
  std::this_thread::sleep_for(seconds(2));
  gates.at_most("processor of a full store in 2 s",
                crowded.load().processor_seconds - full.processor_seconds, 0.2, "s");
  gates.equal("times that a full store said so", static_cast<double>(told), 1.0);
  more.end();

  lower(1024, 1024);  // also lowers the hard limit, which cannot be undone
  std::string words;
  try {
    require_open_files(files);
  } catch (const Error& error) {
    words = error.what();
  }
  const bool both = words.find(cat("needs ", open_files_of_launcher(files))) != std::string::npos &&
                    words.find("may have only 1024") != std::string::npos;
  gates.equal("refusals with both numbers under a hard limit", both ? 1.0 : 0.0, 1.0);
  gates.print(settings.json);
  return gates.status();
}

bool parse(int argc, char** argv, Settings& settings) {
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--json") {
      settings.json = true;
    } else if (word == "--ranks" && has_value) {
      settings.ranks = std::atol(argv[++i]);
    } else if (word == "--lines" && has_value) {
      settings.lines = std::atol(argv[++i]);
    } else {
      settings.size = std::atol(argv[i]);
      if (settings.size < 1) return false;
    }
  }
  return settings.ranks > 0 && settings.lines >= 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  Settings settings;
  try {
    if (parse(argc, argv, settings)) {
      if (mode == "nodes") return try_nodes(settings);
      if (mode == "descriptors") return try_descriptors(settings);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "many_nodes: %s\n", error.what());
    return 1;
  }
  std::fprintf(stderr,
               "usage: many_nodes nodes|descriptors [N] [--ranks R] [--lines L] [--json]\n");
  return 2;
}
