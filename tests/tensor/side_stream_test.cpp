// Tests side streams on stand-in devices, which report accesses that would race on a GPU.
#include "am/tensor/side_stream.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "support/stand_in_device.h"
#include "support/stand_in_streams.h"

namespace am::tensor {
namespace {

constexpr int64_t kNumel = 64;

struct Device {
  c10::Device device = test::stand_in_device(7);
  const c10::DeviceGuard guard{device};
  SideStream side{device};

  Device() { races(); }  // discards races of earlier tests

  at::Tensor full(double value) const { return at::full({kNumel}, value, device); }
  std::vector<std::string> races() const { return test::stream_order(device).take_races(); }
};

}  // namespace

TEST_CASE("the host and the meta device have no side streams") {
  SideStream host(c10::Device(c10::kCPU));
  SideStream meta(c10::Device(c10::kMeta));
  for (SideStream* stream : {&host, &meta}) {
    const SideStream::Use use(stream);
    stream->wait_for_current();
    stream->current_waits();
    stream->host_waits();
  }
  const SideStream::Use none(nullptr);
  CHECK(at::equal(at::ones({2}), at::ones({2})));
}

TEST_CASE("a copy on a side stream is there for who waits") {
  Device here;
  const at::Tensor source = at::full({kNumel}, 3.0);
  const at::Tensor target = here.full(1.0);
  here.side.wait_for_current();
  {
    const SideStream::Use use(&here.side);
    target.copy_(source, /*non_blocking=*/true);
  }
  SECTION("the computing stream") {
    here.side.current_waits();
    CHECK(at::equal((target + 1.0).cpu(), at::full({kNumel}, 4.0)));
    CHECK(here.races().empty());
  }
  SECTION("nobody: what is read is old, and a race") {
    CHECK(at::equal((target + 1.0).cpu(), at::full({kNumel}, 2.0)));
    const auto races = here.races();
    REQUIRE(races.size() == 1);
    CHECK_THAT(races[0],
               Catch::Contains("aten::add") && Catch::Contains("does not wait for copy_"));
  }
  SECTION("the host: all that follows on any stream") {
    here.side.host_waits();
    CHECK(at::equal((target + 1.0).cpu(), at::full({kNumel}, 4.0)));
    CHECK(here.races().empty());
  }
}

TEST_CASE("a side stream that does not wait for what it reads is a race") {
  Device here;
  const at::Tensor source = here.full(2.0);
  const bool waits = GENERATE(true, false);
  if (waits) here.side.wait_for_current();
  {
    const SideStream::Use use(&here.side);
    const at::Tensor twice = source * 2.0;
  }
  here.side.current_waits();
  CHECK(here.races().size() == (waits ? 0 : 1));
}

TEST_CASE("memory that is freed before its last use on another stream is a race") {
  Device here;
  const bool waits = GENERATE(true, false);
  SECTION("of the computing stream") {
    at::Tensor source = here.full(2.0);
    here.side.wait_for_current();
    {
      const SideStream::Use use(&here.side);
      const at::Tensor twice = source * 2.0;
    }
    if (waits) here.side.current_waits();
    source.reset();
  }
  SECTION("of the side stream") {
    at::Tensor made;
    {
      const SideStream::Use use(&here.side);
      made = here.full(2.0);
    }
    here.side.current_waits();
    const at::Tensor twice = made * 2.0;
    if (waits) here.side.wait_for_current();
    made.reset();
  }
  const auto races = here.races();
  REQUIRE(races.size() == (waits ? 0 : 1));
  if (!waits) CHECK_THAT(races[0], Catch::Contains("the end of an allocation"));
}

}  // namespace am::tensor
