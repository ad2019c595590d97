// One all-to-all of a channel: parts of any sizes, of which a rank knows its own alone.
//
// In each round a rank's slot begins with a table: what is in it for each rank, and whether more
// follows. So all count the same rounds, until nobody has more. Parts share a slot equally, and a
// part that is over leaves its share to the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "am/runtime/shared_memory/rounds.h"

namespace am::runtime::shared_memory {

class AllToAll {
 public:
  // As Exchange::all_to_all.
  AllToAll(const Channel& channel, Rounds& rounds, std::byte* out, const std::byte* in,
           const std::vector<int64_t>& out_bytes, const std::vector<int64_t>& in_bytes);
  void run(uint64_t label, Rounds::Deadline deadline);

 private:
  struct Part {
    std::byte* out;       // where the next of it goes
    const std::byte* in;  // what goes next to that rank
    int64_t expected, arrived, left;
    int64_t whole;  // what goes to that rank in all
  };
  struct Header;

  void write(std::byte* slot);
  bool read(int64_t peer, const std::byte* slot);
  bool has_more() const;

  const Channel& channel_;
  Rounds& rounds_;
  std::vector<Part> parts_;  // by rank; of this one nothing is left
};

}  // namespace am::runtime::shared_memory
