// Who holds a job between two steps, and until when.
//
// A pause is a lease: it ends when its owner says so or goes, shows no sign of life for half a
// minute, or gives no command for five, so that no job waits for a person who has gone home.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace am::live {

struct PauseLimits {
  std::chrono::milliseconds silent =
      std::chrono::seconds(30);  // of a client that renews every 10 s
  std::chrono::milliseconds idle = std::chrono::minutes(5);
};

class Pause {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Pause(const PauseLimits& limits = {}) : limits_(limits) {}

  bool active() const { return owner_ != 0; }
  uint64_t owner() const { return owner_; }
  const std::string& who() const { return who_; }
  Clock::time_point since() const { return since_; }

  void begin(uint64_t owner, const std::string& who, Clock::time_point now);
  void end() { owner_ = 0; }
  // The owner gave a command; it showed a sign of life at `alive`.
  void used(Clock::time_point now) { used_ = now; }
  // Why the pause is over by itself; nothing: it is not.
  std::optional<std::string> why_over(Clock::time_point now, Clock::time_point alive,
                                      bool owner_is_there) const;

 private:
  PauseLimits limits_;
  uint64_t owner_ = 0;  // 0: nobody
  std::string who_;
  Clock::time_point since_{};
  Clock::time_point used_{};
};

}  // namespace am::live
