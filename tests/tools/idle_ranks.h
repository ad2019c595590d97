// Simulates ranks of a job as connections to the job's store. A separate process publishes the
// ranks' states as often as their watchdogs would. The ranks are idle, or wait in late collectives
// of their groups.
//
//   IdleRanks ranks(8000);                       // before this process creates threads
//   const int64_t connected = ranks.connect(server.port());
#pragma once

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/launch/cause/rank_state.h"
#include "am/launch/nodes/store_protocol.h"
#include "am/launch/nodes/stores.h"
#include "am/launch/supervise/wall_time.h"

namespace am::test {

inline constexpr const char* kHere = "127.0.0.1";

struct IdleRanksOptions {
  // Time limit of each rank's connection. After the first failure, no further ranks connect.
  std::chrono::milliseconds patience = std::chrono::seconds(60);
  // Time between two publications of a rank's state; 0: launch::state_interval() for the number of
  // simulated ranks and a timeout of 10 minutes.
  std::chrono::milliseconds interval{0};
  int64_t late_group = 0;  // size of the groups, each with a late collective; 0: none
};

inline bool send_all(int fd, const std::string& bytes) {
  return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

inline bool receive(int fd, size_t bytes) {
  std::string answer(bytes, '\0');
  return ::recv(fd, answer.data(), bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

// Returns the message with which a rank's watchdog publishes its state. The rank is idle or, if
// `late` is set, waits in a late collective.
inline std::string state_message(int64_t rank, uint64_t beat, bool late = false) {
  launch::RankState state;
  state.rank = rank;
  state.step = 1000;
  state.beat = beat;
  state.time = launch::wall_time();
  for (const char* group : {"world", "mesh/0/tp/12", "mesh/0/dp_shard/3", "mesh/0/pp/1"}) {
    state.issued[group] = 123456;
  }
  if (late) {
    state.waiting_op = "all_reduce";
    state.waiting_group = "dp_shard";
    state.waiting_communicator = "mesh/0/dp_shard/3";
    state.waiting_sequence = 123456;
    state.waiting_ranks = {rank, rank + 1};
    state.waiting_seconds = 8.0;
  }
  std::string message;
  launch::store::append(message, launch::store::Query::kSet);
  launch::store::append_text(message,
                             cat(launch::store::kKeyPrefix, launch::state_key_in_store(0, rank)));
  launch::store::append_text(message, dump_json(state.to_json(), -1));
  return message;
}

// Reads the states of ranks [begin, end), as a watchdog does while a collective is late. Returns
// false if the store does not answer.
inline bool read_states(int fd, int64_t begin, int64_t end) {
  using launch::store::Query;
  std::string keys;
  launch::store::append(keys, static_cast<uint64_t>(end - begin));
  for (int64_t rank = begin; rank < end; ++rank) {
    launch::store::append_text(keys,
                               cat(launch::store::kKeyPrefix, launch::state_key_in_store(0, rank)));
  }
  std::string message;
  launch::store::append(message, Query::kCheck);
  launch::store::CheckAnswer there{};
  if (!send_all(fd, message + keys) ||
      ::recv(fd, &there, sizeof(there), MSG_WAITALL) != sizeof(there)) {
    return false;
  }
  if (there != launch::store::CheckAnswer::kReady) return true;
  message.clear();
  launch::store::append(message, Query::kMultiGet);
  if (!send_all(fd, message + keys)) return false;
  for (int64_t rank = begin; rank < end; ++rank) {
    uint64_t size = 0;
    if (::recv(fd, &size, sizeof(size), MSG_WAITALL) != sizeof(size) || !receive(fd, size)) {
      return false;
    }
  }
  return true;
}

class IdleRanks {
 public:
  explicit IdleRanks(int64_t ranks, IdleRanksOptions options = {}) : options_(options) {
    if (options_.interval.count() == 0) {
      options_.interval = launch::state_interval(std::chrono::minutes(10), ranks);
    }
    if (::pipe(port_) != 0 || ::pipe(ready_) != 0) throw Error(ErrorKind::kRuntime, "no pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::_exit(live(ranks));
    }
  }
  IdleRanks(const IdleRanks&) = delete;
  IdleRanks& operator=(const IdleRanks&) = delete;
  ~IdleRanks() { end(); }

  // Connects the ranks and returns the number of successful connections. May be called once.
  int64_t connect(int port) {
    int64_t connected = 0;
    if (::write(port_[1], &port, sizeof(port)) != sizeof(port)) return 0;
    return ::read(ready_[0], &connected, sizeof(connected)) == sizeof(connected) ? connected : 0;
  }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  int live(int64_t ranks) {
    int port = 0;
    if (::read(port_[0], &port, sizeof(port)) != sizeof(port)) return 1;
    std::vector<int> fds;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      std::string problem;
      const int fd = launch::connect_to_store(kHere, port, options_.patience, nullptr, problem);
      if (fd < 0) break;
      fds.push_back(fd);
    }
    const auto connected = static_cast<int64_t>(fds.size());
    if (::write(ready_[1], &connected, sizeof(connected)) < 0) return 1;
    constexpr int64_t kSlices = 100;  // number of batches for the messages of one interval
    const auto pause = std::chrono::duration_cast<Clock::duration>(options_.interval) / kSlices;
    auto next = Clock::now();
    for (uint64_t beat = 1;; ++beat) {
      for (int64_t slice = 0; slice < kSlices; ++slice) {
        for (int64_t rank = slice; rank < connected; rank += kSlices) {
          if (!beat_of(fds[static_cast<size_t>(rank)], rank, connected, beat)) return 0;
        }
        // After a delay, the loop makes up for at most one interval, so that the average rate of
        // messages is that of real ranks.
        next = std::max(next + pause, Clock::now() - options_.interval);
        std::this_thread::sleep_until(next);
      }
    }
  }

  // Sends the requests of a rank's watchdog in one interval. Returns false if the store is gone.
  bool beat_of(int fd, int64_t rank, int64_t ranks, uint64_t beat) const {
    constexpr int64_t kWatchers = 2;  // number of watching ranks per group; see Inquiry
    const int64_t group = options_.late_group;
    if (!send_all(fd, state_message(rank, beat, group > 0))) return false;
    if (group == 0 || rank % group >= kWatchers) return true;
    const int64_t first = rank - rank % group;
    return read_states(fd, first, std::min(first + group, ranks));
  }

  using Clock = std::chrono::steady_clock;

  IdleRanksOptions options_;
  int port_[2] = {-1, -1};
  int ready_[2] = {-1, -1};
  pid_t pid_ = 0;
};

}  // namespace am::test
