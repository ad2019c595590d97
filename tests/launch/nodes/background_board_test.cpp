// A board behind a thread of its own: nobody waits for it.
#include "am/launch/nodes/background_board.h"

#include <catch2/catch.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stdexcept>

#include "am/base/error.h"
#include "launch/supervise/job_support.h"

using namespace am;
using namespace am::launch;
using namespace launch_test;

namespace {

// In memory. Can be made to keep every call waiting, as a launcher that was stopped does.
class MapBoard : public Board {
 public:
  void set(const std::string& key, const std::string& value) override {
    std::unique_lock lock(mutex_);
    wait(lock);
    values_[key] = value;
  }
  std::optional<std::string> get(const std::string& key) override {
    std::unique_lock lock(mutex_);
    wait(lock);
    if (broken_) throw std::runtime_error("connection closed");
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }

  void stop(bool stopped) {
    const std::lock_guard lock(mutex_);
    stopped_ = stopped;
    changed_.notify_all();
  }
  void break_down() {
    const std::lock_guard lock(mutex_);
    broken_ = true;
  }
  std::string value(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return values_[key];
  }

 private:
  void wait(std::unique_lock<std::mutex>& lock) {
    changed_.wait(lock, [this] { return !stopped_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  bool stopped_ = false;
  bool broken_ = false;
};

// What the board says when it is asked again and again.
std::string answer(BackgroundBoard& board, const std::string& key) {
  std::optional<std::string> found;
  REQUIRE(soon([&] { return (found = board.get(key)).has_value(); }));
  return *found;
}

// The error of a lost board; empty when it is none after twenty seconds.
std::string loss(BackgroundBoard& board) {
  std::string words;
  soon([&] {
    try {
      board.get("key");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kPeer);
      words = error.what();
    }
    return !words.empty();
  });
  return words;
}

}  // namespace

TEST_CASE("what is set is found, and all of it is written before the end") {
  const auto inner = std::make_shared<MapBoard>();
  {
    BackgroundBoard board(inner, "beat");
    board.set("a", "1");
    CHECK(answer(board, "a") == "1");
    board.set("a", "2");
    CHECK(soon([&] { return board.get("a") == "2"; }));
    for (int i = 0; i < 100; ++i) board.set("last", std::to_string(i));
  }
  CHECK(inner->value("last") == "99");
}

TEST_CASE("each answer is given once") {
  const auto inner = std::make_shared<MapBoard>();
  inner->set("a", "1");
  BackgroundBoard board(inner, "beat");
  CHECK(answer(board, "a") == "1");
  inner->stop(true);
  // At most one answer was under way.
  int more = 0;
  for (int i = 0; i < 20; ++i) more += board.get("a") ? 1 : 0;
  CHECK(more <= 1);
  inner->stop(false);
  CHECK(answer(board, "a") == "1");
}

TEST_CASE("the beat rises though nobody calls") {
  const auto inner = std::make_shared<MapBoard>();
  const BackgroundBoard board(inner, "beat");
  CHECK(soon([&] { return inner->value("beat") == "1"; }));
  CHECK(soon([&] { return inner->value("beat") == "3"; }));
}

TEST_CASE("a board that does not answer keeps nobody waiting, and is lost after a while") {
  const auto inner = std::make_shared<MapBoard>();
  {
    BackgroundBoard board(inner, "beat", std::chrono::milliseconds(300));
    inner->set("a", "1");
    CHECK(answer(board, "a") == "1");
    inner->stop(true);
    CHECK_THAT(loss(board), Catch::StartsWith("no answer for"));
    inner->stop(false);
    CHECK_THAT(loss(board), Catch::StartsWith("no answer for"));  // for good
    inner->stop(true);
  }
  inner->stop(false);  // the thread that was left behind ends
  CHECK(soon([&] { return inner.use_count() == 1; }));
}

TEST_CASE("a board that fails is lost, with its words") {
  const auto inner = std::make_shared<MapBoard>();
  BackgroundBoard board(inner, "beat");
  inner->break_down();
  CHECK(loss(board) == "connection closed");
  CHECK_THROWS_AS(board.set("a", "1"), Error);
}
