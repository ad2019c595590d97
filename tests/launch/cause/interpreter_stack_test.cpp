#include "am/launch/cause/interpreter_stack.h"

#include <catch2/catch.hpp>

namespace am::launch {
namespace {

using Lines = std::vector<std::string>;

TEST_CASE("the last stack of the thread that handled the signal is read") {
  const Lines lines = {
      "step 3 loss 1.5",
      "Thread 0x00007f0001 (most recent call first):",
      "  File \"/usr/lib/python3.11/threading.py\", line 320 in wait",
      "",
      "Current thread 0x00007f0002 (most recent call first):",
      "  File \"/opt/env/lib/python3.11/site-packages/torch/distributed/c10d.py\", line 7 in "
      "all_reduce",
      "  File \"/home/me/my job/train.py\", line 42 in train step",
      "  File \"/home/me/my job/train.py\", line 60 in <module>",
      "a line of the program",
  };
  const auto frames = last_stack(lines);
  REQUIRE(frames.size() == 3);
  CHECK(frames[1].file == "/home/me/my job/train.py");
  CHECK(frames[1].line == "42");
  CHECK(frames[1].function == "train step");
  CHECK(position_of(frames) == "train step (train.py:42), which called all_reduce (c10d.py:7)");
}

TEST_CASE("a position outside packages needs no caller, and there may be no stack") {
  CHECK(position_of(last_stack(
            {"Stack (most recent call first):", "  File \"a.py\", line 1 in f"})) == "f (a.py:1)");
  const Lines packages = {"Stack (most recent call first):",
                          "  File \"/usr/lib/python3.11/runpy.py\", line 88 in _run_code"};
  CHECK(position_of(last_stack(packages)) == "_run_code (runpy.py:88)");
  CHECK(last_stack({}).empty());
  CHECK(last_stack({"Current thread 0x1 (most recent call first):"}).empty());
  CHECK(last_stack({"  File \"a.py\", line 1 in f"}).empty());
  CHECK(last_stack({"Stack (most recent call first):", "  File \"a.py, line 1 in f"}).empty());
  CHECK(position_of({}).empty());
}

}  // namespace
}  // namespace am::launch
