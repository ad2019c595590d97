#include "am/runtime/shared_memory/rounds.h"

#include <algorithm>
#include <stdexcept>

#include "am/base/text.h"
#include "am/runtime/shared_memory/label.h"

namespace am::runtime::shared_memory {

Rounds::Rounds(const Channel& channel) : channel_(channel) {}

// Returns the number of this rank's published rounds that all other ranks have completed. A peer
// may have completed more rounds than this rank has published, because a peer waits only for the
// root in a broadcast. This peer has then completed all rounds that this rank has published.
uint64_t Rounds::done_by_others() const {
  int32_t behind = 0;
  for (int64_t peer = 0; peer < channel_.size(); ++peer) {
    if (peer == channel_.index()) continue;
    behind =
        std::max(behind, static_cast<int32_t>(count_shown() - channel_.value(peer, Count::kDone)));
  }
  return shown_ - static_cast<uint64_t>(behind);
}

const uint64_t* Rounds::free_slot() const {
  const auto* const found =
      std::find_if(free_at_.begin(), free_at_.end(),
                   [done = done_by_others()](uint64_t count) { return count <= done; });
  return found == free_at_.end() ? nullptr : found;
}

bool Rounds::can_write() const { return free_slot() != nullptr; }

std::byte* Rounds::write(Deadline deadline) {
  const uint64_t* slot = free_slot();
  if (slot == nullptr) {
    const uint32_t oldest = count_shown() - Channel::kSlots;
    for (int64_t peer = 0; peer < channel_.size(); ++peer) {
      if (peer != channel_.index()) channel_.wait_for(peer, Count::kDone, oldest + 1, deadline);
    }
    slot = free_slot();
  }
  writing_ = static_cast<uint32_t>(slot - free_at_.data());
  return channel_.slot(channel_.index(), writing_);
}

void Rounds::show(uint64_t label) {
  channel_.set_entry(count_shown(), {label, writing_});
  free_at_[writing_] = ++shown_;
  channel_.reach(Count::kShown, count_shown());
}

bool Rounds::all_shown() const {
  for (int64_t peer = 0; peer < channel_.size(); ++peer) {
    const uint32_t shown = channel_.value(peer, Count::kShown);
    if (peer != channel_.index() && static_cast<int32_t>(shown - count_done()) <= 0) return false;
  }
  return true;
}

const std::byte* Rounds::shown(int64_t peer, uint64_t label, Deadline deadline) const {
  channel_.wait_for(peer, Count::kShown, count_done() + 1, deadline);
  const Channel::Entry theirs = channel_.entry(peer, count_done());
  if (theirs.label != label) {
    throw std::runtime_error(cat(channel_.name(peer), " is in another collective: ",
                                 text_of(theirs.label), "; this rank is in ", text_of(label)));
  }
  return channel_.slot(peer, theirs.slot);
}

std::byte* Rounds::own() const {
  return channel_.slot(channel_.index(), channel_.entry(channel_.index(), count_done()).slot);
}

// Ends the round. Publishes kReduced too, because this count must include every round: reduced() is
// called only in reductions in which each rank sums a separate part.
void Rounds::done() {
  ++done_;
  channel_.reach(Count::kReduced, count_done());
  channel_.reach(Count::kDone, count_done());
}

void Rounds::reduced() const { channel_.reach(Count::kReduced, count_done() + 1); }

void Rounds::wait_until_reduced(int64_t peer, Deadline deadline) const {
  channel_.wait_for(peer, Count::kReduced, count_done() + 1, deadline);
}

}  // namespace am::runtime::shared_memory
