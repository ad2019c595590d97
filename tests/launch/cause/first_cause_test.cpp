#include "am/launch/cause/first_cause.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <vector>

#include "launch/supervise/rank_exits.h"

using namespace am::launch;
using namespace launch_test;

namespace {

// Returns the rank that find_cause() reports; -1 if it reports none.
int64_t cause_of(const std::vector<RankExit>& ranks) {
  const auto cause = find_cause(ranks);
  return cause ? cause->rank : -1;
}

}  // namespace

TEST_CASE("no cause where none failed by itself") {
  CHECK(cause_of({failed(0, 0, 0, 1)}) == -1);
  CHECK(cause_of({failed(0, 0, 0, 1), stopped(1, SIGTERM, 1)}) == -1);
}

TEST_CASE("the earliest failure is the cause") {
  CHECK(cause_of({failed(0, 1, 0, 2.0), failed(1, 1, 0, 1.0)}) == 1);
  // Failures are ordered by the time of the report, even if the process ended later.
  CHECK(cause_of({failed(0, 1, 0, 2.0), reported(1, "io", 1.9)}) == 1);
}

TEST_CASE("a lost peer is a consequence, however early") {
  CHECK(cause_of({reported(0, "peer", 1.0), failed(1, 0, SIGSEGV, 3.0)}) == 1);
  CHECK(cause_of({reported(0, "peer", 1.0), reported(1, "runtime", 3.0)}) == 1);
  CHECK(cause_of({reported(0, "peer", 1.0), failed(1, 1, 0, 3.0)}) == 1);
  CHECK(cause_of({reported(0, "peer", 1.0), reported(1, "peer", 0.5)}) == 1);
}

TEST_CASE("torch's own report may be about a lost peer: a death near it is the better cause") {
  CHECK(cause_of({reported(0, kElasticError, 1.0), failed(1, 0, SIGSEGV, 1.4)}) == 1);
  CHECK(cause_of({reported(0, kElasticError, 1.0), failed(1, 0, SIGABRT, 1.6),
                  failed(2, 0, SIGSEGV, 1.4)}) == 2);
  CHECK(cause_of({reported(0, kElasticError, 1.0), failed(1, 0, SIGABRT, 3.0)}) == 0);
  CHECK(cause_of({reported(0, kElasticError, 1.0), stopped(1, SIGSEGV, 1.4)}) == 0);
  CHECK(cause_of({reported(0, kElasticError, 1.0), reported(1, kElasticError, 0.9)}) == 1);
  CHECK(cause_of({reported(0, kElasticError, 1.0), reported(1, "runtime", 0.9)}) == 1);
  CHECK(cause_of({reported(0, kElasticError, 1.0), reported(1, "peer", 0.9)}) == 0);
}

TEST_CASE("a rank that the launcher stopped is never the cause") {
  RankExit ended = failed(0, 1, 0, 1.0);
  ended.stopped = true;
  CHECK(cause_of({ended, failed(1, 3, 0, 5.0)}) == 1);
}

TEST_CASE("a hang is the fault of the rank that did not arrive") {
  const std::vector<RankExit> ranks = {witness(0, {1}, 1.0), stopped(1, SIGKILL, 8.0)};
  const auto cause = find_cause(ranks);
  REQUIRE(cause);
  CHECK(cause->rank == 1);
  CHECK(cause->end == 1);
  CHECK(cause->witness == 0);
  // A rank that did not arrive at a collective is a stronger cause than a rank that lost its peer,
  // but a weaker one than a rank that died by itself.
  CHECK(cause_of({witness(0, {1}, 2.0), stopped(1, SIGKILL, 8.0), reported(2, "peer", 1.0)}) == 1);
  CHECK(cause_of({witness(0, {1}, 1.0), stopped(1, SIGKILL, 8.0), failed(2, 3, 0, 4.0)}) == 2);
  CHECK(cause_of({witness(0, {1}, 1.0), failed(1, 0, SIGSEGV, 0.5)}) == 1);
  CHECK_FALSE(find_cause(std::vector{witness(0, {1}, 1.0), failed(1, 0, SIGSEGV, 0.5)})->witness);
}

TEST_CASE("a missing rank that waits itself is only a link of the chain") {
  // Rank 0 waits for rank 1, which waits for rank 2, which hangs.
  const std::vector<RankExit> chain = {witness(0, {1}, 1.0), witness(1, {2}, 1.1),
                                       stopped(2, SIGKILL, 8.0)};
  const auto cause = find_cause(chain);
  REQUIRE(cause);
  CHECK(cause->rank == 2);
  CHECK(cause->witness == 1);
  CHECK(cause_of({witness(0, {1, 2}, 1.0), witness(1, {2}, 1.1), stopped(2, SIGKILL, 8.0)}) == 2);
  // Two ranks wait for each other, in different collectives. The cause is the rank that the earlier
  // report names as missing.
  CHECK(cause_of({witness(0, {1}, 1.1), witness(1, {0}, 1.0)}) == 0);
}

TEST_CASE("a missing rank of a node that told nothing is placed by its number") {
  const std::vector<RankExit> ranks = {witness(0, {5}, 1.0), stopped(1, SIGTERM, 2.0)};
  const auto cause = find_cause(ranks, 2);
  REQUIRE(cause);
  CHECK(cause->rank == 5);
  CHECK(cause->node == 2);
  CHECK_FALSE(cause->end);
}

TEST_CASE("a hang without names is no better than a lost peer") {
  CHECK(cause_of({witness(0, {}, 1.0), failed(1, 1, 0, 3.0)}) == 1);
  CHECK(cause_of({witness(0, {}, 1.0), witness(2, {1}, 3.0)}) == 1);
  CHECK(cause_of({witness(0, {}, 1.0)}) == 0);
}

TEST_CASE("a suspended rank is the cause of what others report without knowing why") {
  RankExit suspended = stopped(1, SIGKILL, 8.0);
  suspended.suspended = true;
  CHECK(cause_of({failed(0, 1, 0, 1.0), suspended}) == 1);
  CHECK(cause_of({reported(0, kElasticError, 1.0), suspended}) == 1);
  CHECK(cause_of({reported(0, "peer", 1.0), suspended}) == 1);
  CHECK(cause_of({failed(0, 0, SIGSEGV, 1.0), suspended}) == 0);
  // Rank 0 is a witness: its collective timed out, and its report names rank 2 as missing. Rank 2
  // takes precedence over the suspended rank 1.
  CHECK(cause_of({witness(0, {2}, 1.0), suspended, stopped(2, SIGKILL, 8.0)}) == 2);
}

TEST_CASE("a rank that left early is the cause of a connection that closed after it") {
  RankExit lost = failed(0, 1, 0, 5.0);
  lost.tail = {"Traceback", "RuntimeError: [pair.cc:538] Connection closed by peer [127.0.0.1]:1"};
  CHECK(cause_of({lost, failed(1, 0, 0, 4.0)}) == 1);
  CHECK(cause_of({lost, failed(1, 0, 0, 6.0)}) == 0);  // rank 1 ended after the connection closed
  CHECK(cause_of({lost, failed(1, 0, 0, 4.0), failed(2, 3, 0, 4.5)}) == 2);
  RankExit other = failed(0, 1, 0, 5.0);
  other.tail = {"ValueError: bad batch"};
  CHECK(cause_of({other, failed(1, 0, 0, 4.0)}) == 0);
  RankExit reports = reported(0, kElasticError, 5.0);
  reports.error->message = "DistNetworkError: recvBytes failed";
  CHECK(cause_of({reports, failed(1, 0, 0, 4.0)}) == 1);
}
