// Tests copy_nested(): in the copy of a trace, the range of a unit's backward contains whole
// autograd events.
#include "am/observe/chrome_trace.h"

#include <catch2/catch.hpp>

#include "am/base/file.h"
#include "am/base/text.h"
#include "support/temporary_folder.h"

namespace am {
namespace {

std::string event(const char* category, const std::string& name, int thread, const char* times) {
  return cat("  {\n    \"ph\": \"X\", \"cat\": \"", category, "\", \"name\": \"", name,
             "\", \"pid\": 7, \"tid\": ", thread, ",\n    ", times,
             ",\n    \"args\": {\n    }\n  },\n");
}

std::string evaluation(int thread, const char* times) {
  return event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", thread, times);
}

std::string backward(int thread, const char* times) {
  return event("user_annotation", "backward model.layers.0", thread, times);
}

TEST_CASE("edges of backward ranges move to the begin of autograd's events") {
  const TemporaryFolder temp;
  const std::string others =
      "{\n" +
      event("user_annotation", "forward model.layers.0", 7, "\"ts\": 101.500, \"dur\": 3.000") +
      evaluation(7, "\"ts\": 100.000, \"dur\": 10.000") +
      evaluation(7, "\"ts\": 5214406330477.646, \"dur\": 20.001") +
      evaluation(8, "\"ts\": 104.000, \"dur\": 10.000");
  const auto copied = [&](const std::string& range) {
    write_file_atomically(temp / "from.json", others + range);
    observe::copy_nested(temp / "from.json", temp / "to.json");
    const std::string text = read_file(temp / "to.json");
    REQUIRE(text.substr(0, others.size()) == others);
    return text.substr(others.size());
  };
  // Both edges of the range are inside events, so each moves to the start of its event.
  CHECK(copied(backward(7, "\"ts\": 105.250, \"dur\": 5214406330390.000")) ==
        backward(7, "\"ts\": 100.000, \"dur\": 5214406330377.646"));
  // The end is between two events, so it does not move.
  CHECK(copied(backward(7, "\"ts\": 105.250, \"dur\": 6.500")) ==
        backward(7, "\"ts\": 100.000, \"dur\": 11.750"));
  // Events of another thread do not count, and a range without events stays.
  CHECK(copied(backward(8, "\"ts\": 103.999, \"dur\": 0.001")) ==
        backward(8, "\"ts\": 103.999, \"dur\": 0.001"));
  CHECK(copied(backward(9, "\"ts\": 105.250, \"dur\": 6.500")) ==
        backward(9, "\"ts\": 105.250, \"dur\": 6.500"));
  // A range whose times are written without decimals is copied unchanged.
  CHECK(copied(backward(7, "\"ts\": 105, \"dur\": 6")) == backward(7, "\"ts\": 105, \"dur\": 6"));
}

TEST_CASE("a trace that cannot be read or written is an error") {
  const TemporaryFolder temp;
  CHECK_THROWS_AS(observe::copy_nested(temp / "absent.json", temp / "to.json"),
                  std::filesystem::filesystem_error);
  write_file_atomically(temp / "from.json", "{\n}\n");
  CHECK_THROWS_AS(observe::copy_nested(temp / "from.json", temp / "absent" / "to.json"),
                  std::filesystem::filesystem_error);
}

}  // namespace
}  // namespace am
