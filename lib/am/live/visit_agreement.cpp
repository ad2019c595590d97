#include "am/live/visit_agreement.h"

namespace am::live {

// Both arrive() and propose() write before they read, with sequential consistency. If both run at
// the same time, at least one call therefore sees the value that the other call has written: the
// training thread waits, or the proposal is refused.
bool VisitAgreement::arrive(int64_t steps) {
  steps_.store(steps);
  const int64_t proposed = proposed_.load();
  return (proposed != 0 && steps >= proposed) || steps == planned_;
}

bool VisitAgreement::decided() {
  const int64_t steps = steps_;
  const bool planned = steps == planned_;
  std::unique_lock lock(mutex_);
  const int64_t proposed = proposed_;
  if (proposed == 0 || steps < proposed) return planned;
  changed_.wait(lock, [&] { return closed_ || decision_ || proposed_ != proposed; });
  const bool visit = proposed_ == proposed && decision_.value_or(false);
  if (proposed_ == proposed) {
    proposed_ = 0;
    decision_.reset();
  }
  return visit || planned;
}

bool VisitAgreement::propose(int64_t steps) {
  const std::lock_guard lock(mutex_);
  if (closed_ || decision_) return false;
  proposed_.store(steps);
  changed_.notify_all();
  return steps_.load() < steps;
}

void VisitAgreement::decide(int64_t steps, bool visit) {
  const std::lock_guard lock(mutex_);
  if (proposed_ != steps || decision_) return;  // a decision is final
  if (visit) {
    decision_ = true;
  } else {
    proposed_ = 0;
  }
  changed_.notify_all();
}

void VisitAgreement::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace am::live
