// ask_ranks [RANKS] [--json]: measures the cost of the questions that rank 0 of a large job
// (default: 16384 ranks) asks all other ranks through a real store. A separate process answers for
// the other ranks, with one connection per 1,024 ranks.
//
// Prints a row for each measured figure and its bound, or lines of JSON. Returns exit status 1 if a
// figure exceeds its bound. Processor seconds of rank 0 and of the store have bounds. Wall seconds
// have none, because all simulated ranks share this machine: a real job needs less.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "am/base/json.h"
#include "am/base/text.h"
#include "am/launch/cause/rank_state.h"
#include "am/launch/nodes/store_server.h"
#include "am/live/hang.h"
#include "am/runtime/store.h"
#include "tools/gates.h"

namespace {

using namespace am;
using Clock = std::chrono::steady_clock;

constexpr int64_t kRanksOfConnection = 1024;
constexpr int64_t kMissing = 77;

Json answer_of(int64_t rank, const Json& question) {
  launch::RankState state;
  state.rank = rank;
  state.step = 812;
  const bool waits = rank != kMissing;
  state.issued["world"] = waits ? 6 : 5;
  if (waits) {
    state.waiting_op = "all_reduce";
    state.waiting_group = "world";
    state.waiting_communicator = "world";
    state.waiting_sequence = 6;
    state.waiting_ranks = {0, kMissing};
    state.waiting_seconds = 30.0 + static_cast<double>(rank % 7);
  }
  Json json = {{"rank", rank},
               {"state", state.to_json()},
               {"phase", "backward"},
               {"memory_bytes", (int64_t{70} << 30) + (rank % 16 << 20)}};
  const std::string what = question.at("what");
  if (what == "stack") {
    std::vector<std::string> frames;
    for (int i = 0; i < 30; ++i) {
      frames.push_back(cat("am::some::Function", waits ? "" : "Other", i,
                           "(at::Tensor const&)  (libautomesh.so)"));
    }
    json["frames"] = join(frames, "\n");
  }
  if (what == "collectives") {
    Json list = Json::array();
    for (int64_t i = 0; i < question.value("newest", int64_t{32}); ++i) {
      list.push_back({{"op", "all_gather"},
                      {"group", "dp_shard_cp"},
                      {"sequence", 1000 - i},
                      {"bytes", 1 << 20},
                      {"seconds_ago", 30.0 + static_cast<double>(i)},
                      {"waiting", waits && i == 0}});
    }
    json["collectives"] = std::move(list);
  }
  return json;
}

c10::intrusive_ptr<c10d::TCPStore> connect(int port) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.waitWorkers = false;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

// Answers each question for ranks [begin, end), one rank after another, with the store requests of
// live::answer_questions(). The answers are computed before the questions arrive, because the
// ranks of a real job compute their answers in parallel.
void answer_for(int port, int64_t begin, int64_t end, const std::vector<Json>& asked) {
  std::vector<std::vector<std::string>> answers(asked.size());
  for (size_t i = 0; i < asked.size(); ++i) {
    for (int64_t rank = begin; rank < end; ++rank) {
      answers[i].push_back(dump_json(answer_of(rank, asked[i]), -1));
    }
  }
  const auto store = connect(port);
  store->add("ready", 1);
  for (size_t i = 0; i < asked.size(); ++i) {
    const std::string key = cat("live/question/", i + 1);
    store->wait({key}, std::chrono::minutes(5));
    for (int64_t rank = begin; rank < end; ++rank) {
      runtime::store_get(*store, key);
      runtime::store_set(*store, cat("live/answer/", i + 1, "/", rank),
                         answers[i][static_cast<size_t>(rank - begin)]);
      if (i > 0) store->deleteKey(cat("live/answer/", i, "/", rank));
    }
  }
}

pid_t start_ranks(int port, int64_t ranks, const std::vector<Json>& asked) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<std::thread> threads;
  for (int64_t begin = 1; begin < ranks; begin += kRanksOfConnection) {
    threads.emplace_back(answer_for, port, begin, std::min(ranks, begin + kRanksOfConnection),
                         std::cref(asked));
  }
  for (std::thread& thread : threads) thread.join();
  ::_exit(0);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Returns the processor seconds of the calling thread or of the process, which `clock` selects.
double processor_seconds(clockid_t clock) {
  timespec time = {};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  int64_t ranks = 16384;
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--json") {
      json = true;
    } else {
      ranks = std::max<int64_t>(2, std::atoll(argv[i]));
    }
  }
  std::vector<Json> asked;
  for (const char* what : {"ranks", "collectives", "stack", "ranks"}) {
    asked.push_back(live::question_of(what, /*one=*/false, ranks));
  }
  launch::StoreServer server(0, launch::BindScope::kThisMachine);
  const pid_t child = start_ranks(server.port(), ranks, asked);
  const auto store = connect(server.port());
  const int64_t connections = (ranks - 2) / kRanksOfConnection + 1;
  while (store->add("ready", 0) < connections) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  test::Gates gates("ask");
  live::Questions questions(*store, ranks);
  for (const Json& question : asked) {
    const std::string what = question.at("what");
    const auto begun = Clock::now();
    const double own = processor_seconds(CLOCK_THREAD_CPUTIME_ID);
    const double all = processor_seconds(CLOCK_PROCESS_CPUTIME_ID);
    live::Answers answers = questions.ask(question, {});
    answers.said[0] = answer_of(0, question);
    const auto result = live::describe_answers(what, answers, term::Style::plain());
    const std::string text = dump_json(result.json, -1);
    const double asking = processor_seconds(CLOCK_THREAD_CPUTIME_ID) - own;
    const double serving = processor_seconds(CLOCK_PROCESS_CPUTIME_ID) - all - asking;
    gates.at_most(cat(what, ": processor seconds of rank 0"), asking, 2.0, "s");
    gates.at_most(cat(what, ": processor seconds of the store"), serving, 2.0, "s");
    gates.tell(cat(what, ": wall seconds"), seconds_since(begun), "s");
    gates.equal(cat(what, ": silent ranks"), static_cast<double>(answers.silent.size()), 0);
    gates.at_most(cat(what, ": lines of text"),
                  static_cast<double>(std::count(result.text.begin(), result.text.end(), '\n')),
                  70);
    gates.tell(cat(what, ": bytes of JSON"), static_cast<double>(text.size()), "B");
    if (what == "ranks") gates.equal("ranks: missing", result.json.at("missing").at(0), kMissing);
  }
  ::waitpid(child, nullptr, 0);
  gates.print(json);
  return gates.status();
}
