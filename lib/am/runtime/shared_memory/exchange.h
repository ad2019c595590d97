// The collectives of a Channel: bytes through its slots, a slot's worth at a time, so that a tensor
// of any size needs no more memory than the slots.
//
//   Exchange exchange(*channel);
//   exchange.all_gather(out, in, bytes, deadline);
//
// Every rank calls the same ones in the same order, with the same sizes, one at a time. What goes
// wrong is a std::runtime_error, after which the rank has left the channel and all that follow
// fail: the wait for a peer (Channel::wait_for), or a peer that is in another collective.
//
// Note [Rounds]: a collective is cut into rounds, of which each rank counts the same number. In a
// round a rank writes its slot number round % 2, says so (shown), reads the slots of the others,
// and says so (done). It writes a slot again two rounds later, when all are done with it; a fast
// rank is so a round ahead. A reduction for several ranks has one stage more (reduced).
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "am/runtime/shared_memory/channel.h"
#include "am/runtime/shared_memory/combine.h"

namespace am::runtime::shared_memory {

class Exchange {
 public:
  using Deadline = Channel::Clock::time_point;

  explicit Exchange(const Channel& channel) : channel_(channel) {}

  // `out` holds size() parts of `bytes`; `in` may be this rank's part of it.
  void all_gather(void* out, const void* in, int64_t bytes, Deadline deadline);
  // `in` holds size() parts of `count` elements; `out` may be this rank's part of it.
  void reduce_scatter(void* out, const void* in, int64_t count, c10::ScalarType dtype,
                      Operation operation, Deadline deadline);
  // In place.
  void all_reduce(void* data, int64_t count, c10::ScalarType dtype, Operation operation,
                  Deadline deadline);
  // From the rank number `root` to all, in place.
  void broadcast(void* data, int64_t bytes, int64_t root, Deadline deadline);

 private:
  // Runs `body`; when it throws, leaves the channel.
  void guarded(uint64_t label, const std::function<void()>& body);
  void reduce_round_for_all(std::byte* data, int64_t count, c10::ScalarType dtype,
                            Operation operation, Deadline deadline);
  void reduce_round_in_parts(std::byte* data, int64_t count, c10::ScalarType dtype,
                             Operation operation, Deadline deadline);

  std::byte* begin(Deadline deadline);  // this rank's slot, when it is free
  void show();
  const std::byte* shown(int64_t peer, Deadline deadline);  // the peer's slot, when it is written
  void end();

  const Channel& channel_;
  uint32_t round_ = 0;
  uint64_t label_ = 0;  // of the collective under way; peers must have the same
  std::string broken_;  // why nothing goes on here
};

}  // namespace am::runtime::shared_memory
