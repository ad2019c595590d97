#include "am/base/units.h"

#include <catch2/catch.hpp>
#include <limits>

using namespace am;

TEST_CASE("bytes take the unit that keeps the number under 1024") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1024) == "1.00 KiB");
  CHECK(format_bytes(1234) == "1.21 KiB");
  CHECK(format_bytes(1048575) == "1.00 MiB");  // not 1024.00 KiB
  CHECK(format_bytes(int64_t{16} << 30) == "16.00 GiB");
  CHECK(format_bytes(-2048) == "-2.00 KiB");
  CHECK(format_bytes(std::numeric_limits<int64_t>::max()) == "8.00 EiB");
}

TEST_CASE("counts are grouped by thousands") {
  CHECK(format_count(0) == "0");
  CHECK(format_count(999) == "999");
  CHECK(format_count(1000) == "1 000");
  CHECK(format_count(8030261248) == "8 030 261 248");
  CHECK(format_count(-123456) == "-123 456");
}

TEST_CASE("short counts take K, M, B and T") {
  CHECK(format_short_count(999) == "999");
  CHECK(format_short_count(0.5) == "0.5");
  CHECK(format_short_count(8030261248) == "8.03 B");
  CHECK(format_short_count(999999) == "1.00 M");
  CHECK(format_short_count(1.5e15) == "1500.00 T");
}

TEST_CASE("durations from microseconds to days") {
  CHECK(format_duration(0) == "0 s");
  CHECK(format_duration(35e-6) == "35 us");
  CHECK(format_duration(0.0042) == "4.20 ms");
  CHECK(format_duration(0.812) == "812 ms");
  CHECK(format_duration(0.9996) == "1.0 s");
  CHECK(format_duration(4.2) == "4.2 s");
  CHECK(format_duration(59.96) == "0:01:00");
  CHECK(format_duration(7146) == "1:59:06");
  CHECK(format_duration(86400 + 3661) == "1 d 1:01:01");
  CHECK(format_duration(-4.2) == "-4.2 s");
  CHECK(format_duration(std::numeric_limits<double>::infinity()) == "inf");
}

TEST_CASE("fixed and general numbers are printf's") {
  CHECK(format_fixed(2.0 / 3.0, 3) == "0.667");
  CHECK(format_fixed(-1e300, 0).size() == 302);
  CHECK(format_general(0.00012345, 3) == "0.000123");
  CHECK(format_general(1e-8, 3) == "1e-08");
}
