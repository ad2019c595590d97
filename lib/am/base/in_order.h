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
  // `consume` is called on the thread that calls add() and finish(). If `threads` is at most 1,
  // add() also runs the tasks on that thread.
  InOrder(int threads, std::function<void(Result)> consume)
      : threads_(static_cast<size_t>(threads)), consume_(std::move(consume)) {}

  // Starts a task. If `threads` tasks are already started and not consumed, first waits for the
  // oldest of them and passes its result to `consume`. Rethrows a task's exception.
  void add(std::function<Result()> task) {
    if (threads_ <= 1) return consume_(task());
    if (running_.size() >= threads_) take();
    running_.push_back(std::async(std::launch::async, std::move(task)));
  }
  // Waits for all tasks and passes their results to `consume`. Rethrows a task's exception.
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
