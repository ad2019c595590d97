#include "am/pipeline/timeline.h"

#include <numeric>

#include "am/base/error.h"
#include "support/pytorch_orders.h"

using am::pipeline::Durations;
using am::pipeline::make_schedule;
using am::pipeline::PipelineShape;
using am::pipeline::Schedule;
using am::pipeline::simulate;
using am::pipeline::Timeline;
using am::test::about;

namespace {

Timeline even(const PipelineShape& shape) {
  return simulate(make_schedule(shape), Durations::even(shape.stages(), shape.pp));
}

// Returns the events of a rank, each as in "0F0 0-1".
std::string events(const Timeline& timeline, size_t rank) {
  std::vector<std::string> parts;
  for (const auto& event : timeline.ranks[rank]) {
    parts.push_back(am::cat(to_string(event.action), " ", event.start, "-", event.end));
  }
  return am::join(parts, ", ");
}

}  // namespace

TEST_CASE("a small pipeline by hand", "[schedule]") {
  const Timeline timeline = even({"1f1b", 2, 1, 2});
  CHECK(events(timeline, 0) == "0F0 0-1, 0F1 1-2, 0B0 4-6, 0B1 7-9");
  CHECK(events(timeline, 1) == "1F0 1-2, 1B0 2-4, 1F1 4-5, 1B1 5-7");
  CHECK(timeline.makespan == 9);
  CHECK(timeline.idle == std::vector<double>{3, 3});
  CHECK(timeline.bubble_fraction == Approx(1.0 / 3));
  CHECK(timeline.peak_in_flight == std::vector<int64_t>{2, 1});
}

TEST_CASE("bubbles of gpipe, 1f1b and interleaved_1f1b are the known fractions", "[schedule]") {
  for (const int64_t pp : {2, 3, 4, 8, 16}) {
    for (const int64_t rounds : {1, 2, 5}) {
      const int64_t mb = pp * rounds;
      const auto fraction = [&](int64_t v) {
        return static_cast<double>(pp - 1) / static_cast<double>(v * mb + pp - 1);
      };
      for (const char* name : {"gpipe", "1f1b"}) {
        const PipelineShape shape{name, pp, 1, mb};
        INFO(about(shape));
        CHECK(even(shape).bubble_fraction == Approx(fraction(1)).epsilon(1e-12));
      }
      for (const int64_t v : {2, 3, 4}) {
        const PipelineShape shape{"interleaved_1f1b", pp, v, mb};
        INFO(about(shape));
        CHECK(even(shape).bubble_fraction == Approx(fraction(v)).epsilon(1e-12));
        CHECK(even({"looped_bfs", pp, v, mb}).bubble_fraction ==
              Approx(fraction(v)).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("zero-bubble schedules have smaller bubbles", "[schedule]") {
  for (const int64_t pp : {2, 4, 8}) {
    const int64_t mb = 4 * pp;
    const double plain = even({"interleaved_1f1b", pp, 2, mb}).bubble_fraction;
    CHECK(even({"interleaved_zero_bubble", pp, 2, mb}).bubble_fraction < plain);
    // In zbv_zero_bubble, a pass through a stage lasts 0.5, and each rank computes for 3 * mb in
    // total. While the pipeline fills and drains, a rank idles for (pp - 1) * 0.5.
    const double zbv = even({"zbv_zero_bubble", pp, 2, mb}).bubble_fraction;
    CHECK(zbv < plain);
    CHECK(zbv * static_cast<double>(3 * mb) < static_cast<double>(pp));
  }
}

TEST_CASE("micro-batches in flight are the known numbers", "[schedule]") {
  for (const int64_t pp : {2, 4, 8}) {
    for (const int64_t mb : {pp, 2 * pp, 4 * pp}) {
      const Timeline gpipe = even({"gpipe", pp, 1, mb});
      const Timeline one = even({"1f1b", pp, 1, mb});
      for (int64_t rank = 0; rank < pp; ++rank) {
        const auto at = static_cast<size_t>(rank);
        CHECK(gpipe.peak_in_flight[at] == mb);
        CHECK(one.peak_in_flight[at] == std::min(mb, pp - rank));
        for (const int64_t v : {2, 3}) {
          const Timeline interleaved = even({"interleaved_1f1b", pp, v, mb});
          CHECK(interleaved.peak_in_flight[at] ==
                std::min(mb * v, 2 * (pp - rank - 1) + (v - 1) * pp + 1));
        }
        // A stage of a V schedule is half as large as a stage of 1f1b. Twice as many micro-batches
        // in flight therefore need the same memory.
        CHECK(even({"zbv_zero_bubble", pp, 2, mb}).peak_in_flight[at] <= 2 * pp);
        if (mb < 2 * pp) continue;
        CHECK(even({"dual_pipe_v", pp, 2, mb}).peak_in_flight[at] <= 2 * (pp + 1));
      }
      CHECK(even({"zbv_zero_bubble", pp, 2, mb}).peak_in_flight[0] == std::min(mb + 1, 2 * pp));
    }
  }
}

TEST_CASE("in-flight counts by stage add up to the rank's peak", "[schedule]") {
  for (const auto name : am::pipeline::schedule_names()) {
    const PipelineShape shape{std::string(name), 4, name == "gpipe" || name == "1f1b" ? 1 : 2, 12};
    INFO(name);
    const Schedule schedule = make_schedule(shape);
    const Timeline timeline = even(shape);
    for (int64_t rank = 0; rank < shape.pp; ++rank) {
      const auto order = am::pipeline::make_rank_order(shape, rank);
      CHECK(am::test::row(order, false) ==
            am::test::row(schedule.ranks[static_cast<size_t>(rank)], false));
      const auto counts = am::pipeline::in_flight_by_stage(order, shape.stages());
      CHECK(std::accumulate(counts.begin(), counts.end(), int64_t{0}) ==
            timeline.peak_in_flight[static_cast<size_t>(rank)]);
      for (size_t stage = 0; stage < counts.size(); ++stage) {
        CHECK((counts[stage] == 0 || schedule.owners[stage] == rank));
      }
    }
  }
}

TEST_CASE("hops take time, beside the sender or on it", "[schedule]") {
  const Schedule schedule = make_schedule({"gpipe", 2, 1, 2});
  Durations durations = Durations::even(2, 2);
  durations.hop_latency = 0.5;
  durations.hop_transfer = 0.25;
  const Timeline beside = simulate(schedule, durations);
  CHECK(events(beside, 0) == "0F0 0-1, 0F1 1-2, 0B0 6.5-8.5, 0B1 8.5-10.5");
  CHECK(events(beside, 1) == "1F0 1.75-2.75, 1F1 2.75-3.75, 1B0 3.75-5.75, 1B1 5.75-7.75");
  durations.hops_occupy = true;
  const Timeline on = simulate(schedule, durations);
  CHECK(events(on, 0) == "0F0 0-1, 0F1 1.25-2.25, 0B0 6.75-8.75, 0B1 9-11");
  CHECK(events(on, 1) == "1F0 1.75-2.75, 1F1 3-4, 1B0 4-6, 1B1 6.25-8.25");
}

TEST_CASE("stages may differ, and pairs may overlap", "[schedule]") {
  Durations durations = Durations::even(2, 2);
  durations.stages[1] = {3, 4, 2};  // stage of the head
  const Timeline uneven = simulate(make_schedule({"gpipe", 2, 1, 2}), durations);
  CHECK(uneven.makespan == 1 + 2 * 3 + 2 * 6 + 2);

  const Schedule pairs = make_schedule({"dual_pipe_v", 2, 2, 8});
  durations = Durations::even(4, 2);
  const Timeline sequence = simulate(pairs, durations);
  durations.pair_overlap = 1.0;
  const Timeline overlapped = simulate(pairs, durations);
  CHECK(overlapped.makespan < sequence.makespan);
  // In every overlapped pair, the backward hides the forward, which takes half a unit of time.
  for (size_t rank = 0; rank < 2; ++rank) {
    double computing[2] = {sequence.makespan - sequence.idle[rank],
                           overlapped.makespan - overlapped.idle[rank]};
    int64_t count = 0;
    for (const auto& slot : pairs.ranks[rank]) count += slot.is_pair() ? 1 : 0;
    CHECK(count > 0);
    CHECK(computing[0] - computing[1] == Approx(0.5 * static_cast<double>(count)));
  }
}

TEST_CASE("no pass starts before its input is there, and no rank does two at once", "[schedule]") {
  for (const auto name : am::pipeline::schedule_names()) {
    const PipelineShape shape{std::string(name), 5, name == "gpipe" || name == "1f1b" ? 1 : 2, 10};
    INFO(name);
    const Schedule schedule = make_schedule(shape);
    Durations durations = Durations::even(shape.stages(), shape.pp);
    durations.hop_latency = 0.125;
    const Timeline timeline = simulate(schedule, durations);
    const auto cells = static_cast<size_t>(shape.stages() * shape.microbatches);
    std::vector<double> forward(cells, -1);
    std::vector<double> backward(cells, -1);
    const auto index = [&](int64_t stage, const am::pipeline::Action& action) {
      return static_cast<size_t>(stage * shape.microbatches + action.micro_batch);
    };
    for (const auto& list : timeline.ranks) {
      double free_at = 0;
      for (const auto& event : list) {
        CHECK(event.start >= free_at);
        free_at = event.end;
        using am::pipeline::Kind;
        if (event.action.kind == Kind::kForward) {
          forward[index(event.action.stage, event.action)] = event.end;
        }
        if (makes_input_gradient(event.action.kind)) {
          backward[index(event.action.stage, event.action)] = event.end;
        }
      }
    }
    for (const auto& list : timeline.ranks) {
      for (const auto& event : list) {
        const int64_t stage = event.action.stage;
        const bool is_forward = event.action.kind == am::pipeline::Kind::kForward;
        if (is_forward && stage > 0) {
          CHECK(event.start >= forward[index(stage - 1, event.action)]);
        }
        if (makes_input_gradient(event.action.kind)) {
          CHECK(event.start >= forward[index(stage, event.action)]);
          if (stage + 1 < shape.stages()) {
            CHECK(event.start >= backward[index(stage + 1, event.action)]);
          }
        }
      }
    }
  }
}

TEST_CASE("a large pipeline is simulated whole", "[schedule]") {
  const PipelineShape shape{"interleaved_1f1b", 64, 8, 1024};
  const Timeline timeline = even(shape);
  CHECK(timeline.bubble_fraction == Approx(63.0 / (8 * 1024 + 63)).epsilon(1e-9));
  CHECK(timeline.ranks[17].size() == 2 * 8 * 1024);
}
