// Pause of a job between two steps. The client that requested the pause owns it.
//
// A pause ends when its owner ends it, disconnects, sends no keep-alive message for 30 seconds, or
// sends no command for five minutes. An absent user therefore cannot stop a job for long.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace am::live {

struct PauseLimits {
  // Longest time without a keep-alive message from the owner. am-repl sends one every 10 s.
  std::chrono::milliseconds silent = std::chrono::seconds(30);
  // Longest time without a command from the owner.
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
  // Records that the owner sent a command at `now`.
  void used(Clock::time_point now) { used_ = now; }
  // Returns the reason why the pause must end without a command of its owner; nothing if the pause
  // continues. `alive` is the time of the owner's last keep-alive message. `owner_is_there` is
  // false if the owner has disconnected.
  std::optional<std::string> why_over(Clock::time_point now, Clock::time_point alive,
                                      bool owner_is_there) const;

 private:
  PauseLimits limits_;
  uint64_t owner_ = 0;  // number of the client; 0 without a pause
  std::string who_;
  Clock::time_point since_{};
  Clock::time_point used_{};
};

}  // namespace am::live
