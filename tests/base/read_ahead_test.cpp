// Tests ReadAhead, which prefetches data on a separate thread.
#include "am/base/read_ahead.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "am/base/file.h"
#include "support/temporary_folder.h"
#include "support/wait_for.h"

using namespace am;

TEST_CASE("a thread is two ahead, and never more") {
  std::atomic<int> touched = 0;
  std::atomic<bool> in_order = true;
  ReadAhead ahead(10, [&](size_t i) {
    if (static_cast<int>(i) != touched + 1) in_order = false;
    ++touched;
  });
  for (int i = 0; i < 8; ++i) {
    ahead.reached(static_cast<size_t>(i));
    test::wait_for(touched, i + 2);
    CHECK(touched == i + 2);
  }
  CHECK(in_order);
}

TEST_CASE("one that ends early, or cannot read, waits for nobody") {
  {
    const ReadAhead unused(1'000'000, [](size_t) {});
  }
  ReadAhead fails(10, [](size_t) { throw std::runtime_error("no such file"); });
  for (size_t i = 0; i < 10; ++i) fails.reached(i);
}

TEST_CASE("pages of a map are read, from anywhere in it") {
  const TemporaryFolder temp;
  write_file_atomically(temp / "values", std::string(100'000, 'v'));
  const MappedFile file(temp / "values");
  populate(file.bytes());
  populate(file.bytes().subspan(5'000, 17));
  populate({});
  CHECK(file.bytes()[99'999] == std::byte{'v'});
}
