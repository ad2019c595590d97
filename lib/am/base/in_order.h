// Runs tasks on several threads, and passes their results on in the order of the tasks.
//
//   InOrder<std::string> work(/*threads=*/4, [&](std::string text) { out += text; });
//   for (const std::string& word : words) work.add([word] { return word + "!"; });
//   work.finish();
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <utility>

namespace am {

template <typename Result>
class InOrder {
 public:
  // `consume` is called on the thread that calls add() and finish(). With one thread or none, the
  // tasks run on that thread too, in add().
  InOrder(int threads, std::function<void(Result)> consume)
      : threads_(static_cast<size_t>(threads)), consume_(std::move(consume)) {}

  // Starts a task. If all threads are busy, first waits for the oldest task. Rethrows a task's
  // exception.
  void add(std::function<Result()> task) {
    if (threads_ <= 1) return consume_(task());
    if (running_.size() >= threads_) take();
    running_.push_back(std::async(std::launch::async, std::move(task)));
  }
  // Waits for all tasks.
  void finish() {
    while (!running_.empty()) take();
  }

 private:
  void take() {
    std::future<Result> oldest = std::move(running_.front());
    running_.pop_front();
    consume_(oldest.get());
  }

  size_t threads_;
  std::function<void(Result)> consume_;
  std::deque<std::future<Result>> running_;
};

}  // namespace am
