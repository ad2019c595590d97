#include "am/runtime/shared_memory/exchange.h"

#include <algorithm>
#include <exception>
#include <stdexcept>

#include "am/runtime/shared_memory/all_to_all.h"
#include "am/runtime/shared_memory/label.h"

namespace am::runtime::shared_memory {

namespace {

// Limit for all_reduce(), in bytes per round. If the elements of a round have at most this size, or
// if the group has two ranks, every rank sums all elements itself. This is faster than waiting for
// sums from other ranks.
constexpr int64_t kSmall = 16 << 10;

constexpr auto kSlot = static_cast<int64_t>(Channel::kSlotBytes);

// Splits `count` items into rounds of at most `most` items each.
class Cut {
 public:
  Cut(int64_t count, int64_t most) : count_(count), most_(most) {}
  int64_t rounds() const { return (count_ + most_ - 1) / most_; }
  int64_t begin(int64_t round) const { return round * most_; }
  int64_t size(int64_t round) const { return std::min(most_, count_ - begin(round)); }

 private:
  int64_t count_, most_;
};

}  // namespace

void Exchange::guarded(uint64_t label, Deadline deadline, const std::function<void()>& body) {
  if (!broken_.empty()) throw std::runtime_error(broken_);
  if (channel_.has_left()) throw std::runtime_error("the group was aborted");
  label_ = label;
  deadline_ = deadline;
  try {
    body();
  } catch (const std::exception& error) {
    broken_ = error.what();
    channel_.leave();
    throw;
  }
}

// Writes data of later rounds ahead of time only while other ranks' data of the current round is
// missing; see Note [Rounds] in rounds.h.
void Exchange::run(int64_t count, const std::function<void(int64_t, std::byte*)>& write,
                   const std::function<void(int64_t)>& read) {
  int64_t written = 0;
  for (int64_t i = 0; i < count; ++i) {
    while (written < count && (written == i || (!rounds_.all_shown() && rounds_.can_write()))) {
      write(written++, rounds_.write(deadline_));
      rounds_.show(label_);
    }
    read(i);
    rounds_.done();
  }
}

void Exchange::all_gather(void* out, const void* in, int64_t bytes, Deadline deadline) {
  guarded(label_of(Kind::kAllGather, 0, bytes), deadline, [&] {
    const Cut cut(bytes, kSlot);
    const auto* from = static_cast<const std::byte*>(in);
    auto* to = static_cast<std::byte*>(out);
    const int64_t size = channel_.size();
    const auto write = [&](int64_t i, std::byte* slot) {
      copy_bytes(slot, from + cut.begin(i), cut.size(i));
    };
    run(cut.rounds(), write, [&](int64_t i) {
      const int64_t at = cut.begin(i);
      copy_bytes(to + channel_.index() * bytes + at, from + at, cut.size(i));
      for (int64_t step = 1; step < size; ++step) {
        const int64_t peer = (channel_.index() + step) % size;
        copy_bytes(to + peer * bytes + at, shown(peer), cut.size(i));
      }
    });
  });
}

void Exchange::reduce_scatter(void* out, const void* in, int64_t count, c10::ScalarType dtype,
                              Operation operation, Deadline deadline) {
  guarded(label_of(Kind::kReduceScatter, detail_of(dtype, operation), count), deadline, [&] {
    const auto* from = static_cast<const std::byte*>(in);
    auto* to = static_cast<std::byte*>(out);
    const auto width = static_cast<int64_t>(c10::elementSize(dtype));
    const int64_t size = channel_.size();
    // Size in bytes of each rank's part of the slot: a multiple of a cache line.
    const int64_t part = kSlot / size / 64 * 64;
    const Cut cut(count, part / width);
    const auto given = [&](int64_t i, int64_t peer) {
      return from + (peer * count + cut.begin(i)) * width;
    };
    const auto write = [&](int64_t i, std::byte* slot) {
      for (int64_t peer = 0; peer < size; ++peer) {
        if (peer != channel_.index()) {
          copy_bytes(slot + peer * part, given(i, peer), cut.size(i) * width);
        }
      }
    };
    std::vector<const void*> rows(static_cast<size_t>(size));
    run(cut.rounds(), write, [&](int64_t i) {
      for (int64_t peer = 0; peer < size; ++peer) {
        rows[static_cast<size_t>(peer)] =
            peer == channel_.index() ? given(i, peer) : shown(peer) + channel_.index() * part;
      }
      combine(dtype, operation, to + cut.begin(i) * width, rows, cut.size(i));
    });
  });
}

void Exchange::all_reduce(void* data, int64_t count, c10::ScalarType dtype, Operation operation,
                          Deadline deadline) {
  guarded(label_of(Kind::kAllReduce, detail_of(dtype, operation), count), deadline, [&] {
    const auto width = static_cast<int64_t>(c10::elementSize(dtype));
    const Cut cut(count, kSlot / width);
    const auto at = [&](int64_t i) { return static_cast<std::byte*>(data) + cut.begin(i) * width; };
    const auto in_parts = [&](int64_t i) {
      return channel_.size() > 2 && cut.size(i) * width > kSmall;
    };
    const auto write = [&](int64_t i, std::byte* slot) {
      // If each rank sums one part, skips this rank's own part: peers read that part of the slot
      // only after sum_parts() has written the sum to it.
      const int64_t skipped = in_parts(i) ? part_begin(cut.size(i), channel_.index()) * width : 0;
      const int64_t next = in_parts(i) ? part_begin(cut.size(i), channel_.index() + 1) * width : 0;
      copy_bytes(slot, at(i), skipped);
      copy_bytes(slot + next, at(i) + next, cut.size(i) * width - next);
    };
    run(cut.rounds(), write, [&](int64_t i) {
      if (in_parts(i)) {
        sum_parts(at(i), cut.size(i), dtype, operation);
      } else {
        sum_all(at(i), cut.size(i), dtype, operation);
      }
    });
  });
}

// Returns the index of the first element that the rank with index `rank` sums, if the ranks share
// the sum of `count` elements.
int64_t Exchange::part_begin(int64_t count, int64_t rank) const {
  return count * rank / channel_.size();
}

// Waits until every rank has published its `count` elements, then writes the sum over the ranks to
// `data`.
void Exchange::sum_all(std::byte* data, int64_t count, c10::ScalarType dtype,
                       Operation operation) const {
  std::vector<const void*> rows(static_cast<size_t>(channel_.size()));
  for (int64_t peer = 0; peer < channel_.size(); ++peer) {
    rows[static_cast<size_t>(peer)] = peer == channel_.index() ? data : shown(peer);
  }
  combine(dtype, operation, data, rows, count);
}

// Waits until every rank has published its `count` elements, then sums this rank's part of the
// elements over the ranks. Publishes the sum in this rank's slot, and copies the sums of the other
// parts from the other ranks' slots.
void Exchange::sum_parts(std::byte* data, int64_t count, c10::ScalarType dtype,
                         Operation operation) const {
  const auto width = static_cast<int64_t>(c10::elementSize(dtype));
  const int64_t size = channel_.size();
  const auto begin_of = [&](int64_t rank) { return part_begin(count, rank) * width; };
  const auto bytes_of = [&](int64_t rank) { return begin_of(rank + 1) - begin_of(rank); };
  const int64_t own = begin_of(channel_.index());
  const int64_t bytes = bytes_of(channel_.index());
  std::vector<const void*> rows(static_cast<size_t>(size));
  for (int64_t peer = 0; peer < size; ++peer) {
    rows[static_cast<size_t>(peer)] = (peer == channel_.index() ? data : shown(peer)) + own;
  }
  combine(dtype, operation, data + own, rows, bytes / width);
  copy_bytes(rounds_.own() + own, data + own, bytes);
  rounds_.reduced();
  for (int64_t step = 1; step < size; ++step) {
    const int64_t peer = (channel_.index() + step) % size;
    rounds_.wait_until_reduced(peer, deadline_);
    copy_bytes(data + begin_of(peer), shown(peer) + begin_of(peer), bytes_of(peer));
  }
}

void Exchange::broadcast(void* data, int64_t bytes, int64_t root, Deadline deadline) {
  guarded(label_of(Kind::kBroadcast, static_cast<uint64_t>(root), bytes), deadline, [&] {
    const Cut cut(bytes, kSlot);
    const bool gives = channel_.index() == root;
    const auto at = [&](int64_t i) { return static_cast<std::byte*>(data) + cut.begin(i); };
    const auto write = [&](int64_t i, std::byte* slot) {
      if (gives) copy_bytes(slot, at(i), cut.size(i));
    };
    run(cut.rounds(), write, [&](int64_t i) {
      if (!gives) copy_bytes(at(i), shown(root), cut.size(i));
    });
  });
}

void Exchange::all_to_all(void* out, const void* in, const std::vector<int64_t>& out_bytes,
                          const std::vector<int64_t>& in_bytes, int64_t width, Deadline deadline) {
  guarded(label_of(Kind::kAllToAll, 0, width), deadline, [&] {
    AllToAll(channel_, rounds_, static_cast<std::byte*>(out), static_cast<const std::byte*>(in),
             out_bytes, in_bytes)
        .run(label_, deadline_);
  });
}

}  // namespace am::runtime::shared_memory
