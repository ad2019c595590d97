// Finds out why a collective does not end. The ranks of the collective's group share this work
// through the job's store.
//
//   Inquiry inquiry(store, rank, world_size, context, interval, stopping);
//   inquiry.listen(waiting);                    // in each interval while the collective is late
//   const int64_t place = inquiry.take_place(collective);
//   const Stall stall = inquiry.explain(collective, timed_out, place);
//
// Note [One rank asks for its group]: if each rank of a group read the state of every other rank, a
// hang of N ranks would cost N^2 requests to the store, which one thread serves. Therefore only the
// first two ranks that find the collective late watch the states of the group's ranks, with one
// request for all states, and publish which ranks are silent. The first rank that has to explain
// the hang reads the states once more and publishes a verdict, which all other ranks read. If there
// is no verdict after store_patience(), the second rank reads the states itself; after twice that
// time, each rank does.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "am/base/json.h"
#include "am/runtime/group.h"
#include "am/runtime/stall.h"

namespace am::runtime {

// Returns how long a rank waits for an answer from the store, or from another rank through it:
// 1.5 s plus 1 s per thousand ranks, because all ranks send requests at the same time.
std::chrono::milliseconds store_patience(int64_t world_size);

// Finds out, as one rank of a group, why collectives do not end. Used by one thread. Functions that
// use the store throw its exceptions.
class Inquiry {
 public:
  using Clock = Progress::Clock;

  // `interval`: time between two publications of a rank's state. `stopping`: returns whether a wait
  // must end early.
  Inquiry(c10d::Store& store, int64_t rank, int64_t world_size, GroupContext& context,
          std::chrono::milliseconds interval, std::function<bool()> stopping);

  // Publishes this rank's state. Its size does not depend on the sizes of groups: a long list of a
  // group's ranks is published only once, under a separate key.
  void publish();
  // Reports that this rank's collective `waiting` is late, i.e. past half of its timeout; call
  // listen() in each interval while it is late. The first two ranks of the group that call it watch
  // the states of the group's ranks.
  void listen(const Collective& waiting);
  // Forgets the states of other ranks; call it while no collective is late.
  void rest();
  // Registers this rank before it calls explain() for `collective`. Returns the rank's position in
  // the order of registration, counted from 1.
  int64_t take_place(const Collective& collective);
  // Returns why a collective failed or timed out. One rank of the group finds the reason and
  // publishes it as the group's verdict; the other ranks read the verdict. `place`: the result of
  // take_place.
  Stall explain(const Collective& collective, bool timed_out, int64_t place);

 private:
  struct Heard {
    RankState state;
    Clock::time_point changed;
  };

  std::string key(const char* what, const Collective& collective) const;
  void read_states(const Collective& waiting);
  void hear(RankState state);
  void publish_silence(const Collective& waiting);
  std::map<int64_t, PeerView> views(const Collective& waiting);
  void add_silence(const Collective& waiting, std::map<int64_t, PeerView>& views);
  Stall look(const Collective& collective, bool timed_out);
  std::optional<Stall> read_verdict(const Collective& collective);
  std::optional<Stall> await_verdict(const Collective& collective,
                                     std::chrono::milliseconds patience);
  void publish_verdict(const Collective& collective, Stall stall);
  // Returns the time in seconds without a new state after which a rank counts as stopped.
  double silent_limit() const;

  c10d::Store& store_;
  const int64_t rank_;
  const std::chrono::milliseconds patience_;
  GroupContext& context_;
  const std::chrono::milliseconds interval_;
  const std::function<bool()> stopping_;
  std::map<int64_t, Heard> heard_;
  // Lists of ranks that other ranks published under separate keys, by the communicator's name.
  std::map<std::string, std::vector<int64_t>> members_;
  std::map<std::string, bool> published_members_;
  std::string late_;     // key of the collective that is late; empty: none
  int64_t place_ = 0;    // place of this rank among those that reported the late collective, from 1
  std::string silence_;  // list of silent ranks that this rank published last
  Clock::time_point published_ = {};
};

}  // namespace am::runtime
