// Messages of one rank to another: what pipeline stages hand on.
//
// A channel has one direction and connections of its own. Both ends return at once; the tensors
// must be left alone until wait(). Messages arrive in the order in which they were sent, and the
// ends number them alike, so that the watchdog names the rank that a message waits for.
//
//   const Channels channels = mesh.channels("pp", {{0, 1}, {1, 0}});
//   Pending sent = channels.at({0, 1}).send(x);                  // on index 0
//   Pending arrived = channels.at({0, 1}).receive(x);            // on index 1
//
// Note [One direction]: with one connection for both directions a posted receive would stand before
// a send in its queue, and two ranks that do so wait for each other.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>

#include "am/runtime/group.h"

namespace am::runtime {

// From one index of a group to another.
struct Hop {
  int64_t from = 0;
  int64_t to = 0;

  // One order for all ranks: first by the lower index, then by the higher, then by the direction.
  friend bool operator<(const Hop& a, const Hop& b) {
    const auto key = [](const Hop& hop) {
      return std::make_tuple(std::min(hop.from, hop.to), std::max(hop.from, hop.to), hop.from);
    };
    return key(a) < key(b);
  }
};

class Channel {
 public:
  // Of two ranks: index 0 sends to index 1.
  explicit Channel(Group pair);

  bool sends() const { return pair_.index() == 0; }
  int64_t peer() const { return pair_.ranks()[sends() ? 1 : 0]; }

  // Of a contiguous tensor, at one end each; the ends agree on size and dtype. What is returned
  // must be waited for: dropped, it takes its message back.
  [[nodiscard]] Pending send(const at::Tensor& tensor) const;
  [[nodiscard]] Pending receive(const at::Tensor& tensor) const;

  // Ends what is under way: who waits gets an error. The channel is of no further use.
  void abort() const { pair_.abort(); }

 private:
  Group pair_;
};

using Channels = std::map<Hop, Channel>;

}  // namespace am::runtime
