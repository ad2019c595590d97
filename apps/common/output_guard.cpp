#include "common/output_guard.h"

#include <iostream>
#include <mutex>
#include <streambuf>
#include <string>
#include <utility>

#include "am/term/printable.h"

namespace am_apps {
namespace {

class PrintableBuffer : public std::streambuf {
 public:
  explicit PrintableBuffer(std::ostream& stream) : inner_(stream.rdbuf(this)) {}

  void allow_paint(bool allowed) {
    const std::lock_guard lock(mutex_);
    paint_ = allowed;
  }

 protected:
  int_type overflow(int_type c) override {
    const std::lock_guard lock(mutex_);
    if (!traits_type::eq_int_type(c, traits_type::eof())) {
      waiting_ += traits_type::to_char_type(c);
    }
    return traits_type::not_eof(c);
  }

  std::streamsize xsputn(const char* text, std::streamsize size) override {
    const std::lock_guard lock(mutex_);
    waiting_.append(text, static_cast<size_t>(size));
    constexpr size_t kMost = size_t{1} << 16;
    if (waiting_.size() < kMost) return size;
    // Complete lines are filtered and written here; the beginning of an unfinished last line stays
    // in waiting_. No UTF-8 or colour sequence contains a newline, so none is cut in two.
    const size_t end = waiting_.rfind('\n');
    if (end == std::string::npos) return size;
    const std::string rest = waiting_.substr(end + 1);
    waiting_.resize(end + 1);
    const bool written = write();
    waiting_ = rest;
    return written ? size : 0;
  }

  int sync() override {
    const std::lock_guard lock(mutex_);
    return write() ? inner_->pubsync() : -1;
  }

 private:
  bool write() {
    const std::string text = am::term::printable_lines(std::exchange(waiting_, {}), paint_);
    const auto size = static_cast<std::streamsize>(text.size());
    return inner_->sputn(text.data(), size) == size;
  }

  std::streambuf* inner_;
  std::mutex mutex_;  // guards the members below, because a thread of am-repl prints notices
  std::string waiting_;
  bool paint_ = false;
};

struct Guards {
  PrintableBuffer out{std::cout};
  PrintableBuffer err{std::cerr};
};

// The filters are never destroyed, because std::cout and std::cerr use them until the process ends.
Guards& guards() {
  static Guards& both = *new Guards;
  return both;
}

}  // namespace

void guard_output() { guards(); }

void allow_paint(bool out, bool err) {
  guards().out.allow_paint(out);
  guards().err.allow_paint(err);
}

}  // namespace am_apps
