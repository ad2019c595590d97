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
// first two ranks that find the collective late watch the states of the group's ranks, and read all
// states with few requests. These two ranks publish which ranks are silent, that is, publish no new
// state. The first rank that has to explain the hang reads the states once more and publishes a
// verdict, which all other ranks read. If there is no verdict after store_patience(), the second
// rank reads the states itself; after 2 * store_patience(), each rank reads them.
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

// Returns how long a rank waits for an answer of the store, or of another rank through the store:
// 1.5 s plus 1 ms per rank of the world, because all ranks send requests at the same time.
std::chrono::milliseconds store_patience(int64_t world_size);

// One rank's part in the search for the reason why collectives do not end. Only one thread may use
// an object. Functions that use the store throw the store's exceptions.
class Inquiry {
 public:
  using Clock = Progress::Clock;

  // `interval`: time between two publications of a rank's state. `stopping`: returns whether
  // explain() must stop waiting for a verdict.
  Inquiry(c10d::Store& store, int64_t rank, int64_t world_size, GroupContext& context,
          std::chrono::milliseconds interval, std::function<bool()> stopping);

  // Publishes this rank's state. The size of the state does not depend on the sizes of groups: a
  // long list of a group's ranks is published only once, under a separate key.
  void publish();
  // Reports that this rank's collective `waiting` is late, i.e. past half of its timeout. Call
  // listen() in each interval while the collective is late. The first two ranks of the group that
  // call listen() watch the states of the group's ranks.
  void listen(const Collective& waiting);
  // Forgets the states of other ranks. Call rest() while no collective is late.
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
  // Returns the number of seconds without a new state after which a rank counts as silent.
  double silent_limit() const;

  c10d::Store& store_;
  const int64_t rank_;
  const std::chrono::milliseconds patience_;
  GroupContext& context_;
  const std::chrono::milliseconds interval_;
  const std::function<bool()> stopping_;
  std::map<int64_t, Heard> heard_;
  // Lists of a group's ranks that were read from separate keys, by the communicator's name.
  std::map<std::string, std::vector<int64_t>> members_;
  std::map<std::string, bool> published_members_;
  std::string late_;     // key of the collective that is late; empty: none
  int64_t place_ = 0;    // this rank's position, from 1, among the ranks that called listen()
  std::string silence_;  // text that publish_silence() published last; empty: none
  Clock::time_point published_ = {};
};

}  // namespace am::runtime
