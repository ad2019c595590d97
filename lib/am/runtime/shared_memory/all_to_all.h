// One all-to-all of a channel, with parts of any sizes. Each rank specifies only the sizes of the
// parts that it sends and receives.
//
// In each round (rounds.h), a rank writes one slot, a part of the shared memory that the other
// ranks read. The slot begins with a table, which states how many bytes the slot contains for each
// receiver, and whether more bytes follow in later rounds. All ranks run the same number of rounds,
// until no rank has more bytes to send. Receivers share a slot equally; when all bytes for one
// receiver are sent, the other receivers share its part of the slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "am/runtime/shared_memory/rounds.h"

namespace am::runtime::shared_memory {

class AllToAll {
 public:
  // The arguments from `out` on are as in Exchange::all_to_all.
  AllToAll(const Channel& channel, Rounds& rounds, std::byte* out, const std::byte* in,
           const std::vector<int64_t>& out_bytes, const std::vector<int64_t>& in_bytes);
  void run(uint64_t label, Rounds::Deadline deadline);

 private:
  struct Part {
    std::byte* out;       // where to write the next bytes from the peer
    const std::byte* in;  // next bytes to send to the peer
    // Numbers of bytes: to receive from the peer in total, received so far, and still to send.
    int64_t expected, arrived, left;
    int64_t whole;  // total number of bytes to send to the peer
  };
  struct Header;

  void write(std::byte* slot);
  bool read(int64_t peer, const std::byte* slot);
  bool has_more() const;

  const Channel& channel_;
  Rounds& rounds_;
  std::vector<Part> parts_;  // one per rank; this rank's own part is copied by the constructor
};

}  // namespace am::runtime::shared_memory
