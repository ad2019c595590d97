#include "am/runtime/shared_memory/all_to_all.h"

#include <algorithm>
#include <stdexcept>

#include "am/base/text.h"

namespace am::runtime::shared_memory {

namespace {

constexpr int64_t kCacheLine = 64;

int64_t whole_lines(int64_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine; }

}  // namespace

// An entry of the table at the start of a slot. Describes the bytes for one receiver.
struct AllToAll::Header {
  int64_t whole;  // number of bytes for the receiver in all rounds
  int64_t first;  // offset of the receiver's bytes in the slot
  int64_t bytes;  // number of the receiver's bytes in the slot
  int64_t more;   // nonzero: another round follows, because the sender has more bytes for some rank
};

AllToAll::AllToAll(const Channel& channel, Rounds& rounds, std::byte* out, const std::byte* in,
                   const std::vector<int64_t>& out_bytes, const std::vector<int64_t>& in_bytes)
    : channel_(channel), rounds_(rounds) {
  for (size_t i = 0; i < out_bytes.size(); ++i) {
    parts_.push_back({out, in, out_bytes[i], 0, in_bytes[i], in_bytes[i]});
    out += out_bytes[i];
    in += in_bytes[i];
  }
  Part& own = parts_[static_cast<size_t>(channel.index())];
  if (own.expected != own.left) {
    throw std::runtime_error(
        cat("this rank sends ", own.left, " bytes to itself, but expects ", own.expected));
  }
  copy_bytes(own.out, own.in, own.left);
  own.left = 0;
}

bool AllToAll::has_more() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.left > 0; });
}

// Writes the table and the next bytes for each receiver to the slot. The receivers for which this
// rank still has bytes share the slot equally. If some of these shares are not filled, the first
// receivers with more bytes than their share get the space that remains.
void AllToAll::write(std::byte* slot) {
  std::vector<Header> headers(parts_.size());
  const auto table = whole_lines(static_cast<int64_t>(headers.size() * sizeof(Header)));
  int64_t room = static_cast<int64_t>(Channel::kSlotBytes) - table;
  const auto waiting =
      std::count_if(parts_.begin(), parts_.end(), [](const Part& part) { return part.left > 0; });
  const int64_t share = room / std::max<int64_t>(1, waiting) / kCacheLine * kCacheLine;
  for (size_t i = 0; i < parts_.size(); ++i) {
    headers[i].bytes = std::min(parts_[i].left, share);
    room -= whole_lines(headers[i].bytes);
  }
  int64_t first = table;
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    Header& header = headers[i];
    const int64_t extra = std::min(part.left - header.bytes, room / kCacheLine * kCacheLine);
    header.bytes += extra;
    room -= whole_lines(extra);
    header.whole = part.whole;
    header.first = first;
    copy_bytes(slot + first, part.in, header.bytes);
    part.in += header.bytes;
    part.left -= header.bytes;
    first += whole_lines(header.bytes);
  }
  for (Header& header : headers) header.more = has_more() ? 1 : 0;
  copy_bytes(slot, headers.data(), static_cast<int64_t>(headers.size() * sizeof(Header)));
}

// Copies the peer's bytes for this rank. Returns whether the peer has more bytes for any rank.
bool AllToAll::read(int64_t peer, const std::byte* slot) {
  Part& part = parts_[static_cast<size_t>(peer)];
  Header header = {};
  copy_bytes(&header, slot + static_cast<size_t>(channel_.index()) * sizeof(Header),
             sizeof(Header));
  if (header.whole != part.expected || header.bytes > part.expected - part.arrived) {
    throw std::runtime_error(cat("all_to_all: ", channel_.name(peer), " sends ", header.whole,
                                 " bytes to this rank, which expects ", part.expected));
  }
  copy_bytes(part.out, slot + header.first, header.bytes);
  part.out += header.bytes;
  part.arrived += header.bytes;
  return header.more != 0;
}

void AllToAll::run(uint64_t label, Rounds::Deadline deadline) {
  int64_t ahead = 0;  // number of rounds that this rank has written but not yet read
  for (bool more = true; more;) {
    while (ahead == 0 || (has_more() && !rounds_.all_shown() && rounds_.can_write())) {
      write(rounds_.write(deadline));
      rounds_.show(label);
      ++ahead;
    }
    more = ahead > 1 || has_more();
    for (int64_t step = 1; step < channel_.size(); ++step) {
      const int64_t peer = (channel_.index() + step) % channel_.size();
      more = read(peer, rounds_.shown(peer, label, deadline)) || more;
    }
    rounds_.done();
    --ahead;
  }
}

}  // namespace am::runtime::shared_memory
