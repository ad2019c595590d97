// Messages from one rank to another, as between pipeline stages.
//
// A channel has one direction and its own communicator. send() and receive() return immediately;
// the caller must not use the tensor before Pending::wait(). Messages arrive in the order in which
// they were sent. Both ends number the messages in this order, so the watchdog can name the rank
// for which a message waits.
//
//   const Channels channels = mesh.channels("pp", {{0, 1}, {1, 0}});
//   Pending sent = channels.at({0, 1}).send(x);                  // on index 0
//   Pending arrived = channels.at({0, 1}).receive(x);            // on index 1
//
// Note [One direction]: if one connection served both directions, a send would wait in the
// connection's queue behind a receive that was posted before. Two ranks that both post a receive
// first would deadlock.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>

#include "am/runtime/group.h"

namespace am::runtime {

// Two members of a group, given by their indices in the group: `from` sends and `to` receives.
struct Hop {
  int64_t from = 0;
  int64_t to = 0;

  // Orders hops by the lower index, then by the higher index, then by the sender's index. The order
  // is thus equal on all ranks.
  friend bool operator<(const Hop& a, const Hop& b) {
    const auto key = [](const Hop& hop) {
      return std::make_tuple(std::min(hop.from, hop.to), std::max(hop.from, hop.to), hop.from);
    };
    return key(a) < key(b);
  }
};

class Channel {
 public:
  // `pair` is a group of two ranks, in which index 0 sends to index 1.
  explicit Channel(Group pair);

  bool sends() const { return pair_.index() == 0; }
  // Returns the world rank of the other end.
  int64_t peer() const { return pair_.ranks()[sends() ? 1 : 0]; }

  // Send or receive a contiguous tensor. Its size and dtype must be equal at both ends. Call wait()
  // on the result; destroying the result before wait() may cancel the message.
  [[nodiscard]] Pending send(const at::Tensor& tensor) const;
  [[nodiscard]] Pending receive(const at::Tensor& tensor) const;

  // Ends messages in progress: ranks that wait for them get an error. The channel cannot be used
  // afterwards.
  void abort() const { pair_.abort(); }

 private:
  Group pair_;
};

using Channels = std::map<Hop, Channel>;

}  // namespace am::runtime
