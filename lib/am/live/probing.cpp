// `watch` and `tripwire` of a job: whose they are, when they are asked, and whom the answer goes
// to. On rank 0's training thread, between two steps.
#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/control/frame.h"
#include "am/inspect/attached.h"
#include "am/live/host.h"

namespace am::live {

namespace {

using inspect::Arguments;
using inspect::Result;

constexpr std::ptrdiff_t kMostTripwires = 8;  // of one client

Json none() { return {{"norms", Json::array()}, {"total", Json::object()}}; }

}  // namespace

bool Host::probe_is_due(int64_t steps) const {
  return std::any_of(probes_.begin(), probes_.end(),
                     [&](const Probe& probe) { return probe.is_due(steps); });
}

// While somebody holds the job, only what has just been asked for.
std::optional<Host::Turn> Host::next_probe(const train::Boundary& boundary) {
  for (size_t i = 0; i < probes_.size();) {
    const Probe& probe = probes_[i];
    if (!probe.is_due(boundary.steps) || (pause_.active() && probe.begun())) {
      ++i;
    } else if (!probe.input().empty()) {
      return Turn{.kind = Kind::kCommand, .request = probe.request(), .probe = i};
    } else {
      const size_t before = probes_.size();
      inspect::Outcome nothing;
      nothing.result.json = none();
      probed(i, nothing, boundary);
      if (probes_.size() == before) ++i;
    }
  }
  return std::nullopt;
}

// Whether its request has no answer yet and gets none elsewhere.
bool Host::waits(const Turn& turn) const {
  if (!turn.probe) return true;
  const Probe& probe = probes_[*turn.probe];
  return !probe.is_watch() && !probe.begun();
}

void Host::start_watch(const Arguments& arguments, const control::Request& request) {
  require_mine(request.client);
  if (pause_.active()) {
    throw Error(ErrorKind::kUsage, "the job is paused: there are no steps to watch",
                "`continue` first, or `step N`");
  }
  for (const Probe& each : probes_) {
    if (each.is_watch() && each.request().client == request.client) {
      throw Error(ErrorKind::kUsage, "another `watch` of yours is under way");
    }
  }
  const auto who = server_->client(request.client);
  const Json hello = who ? who->hello : Json::object();
  probes_.push_back(
      Probe::watch(arguments, request,
                   inspect::requested_session(hello.value("session", Json::object())).style));
}

Result Host::set_tripwire(const Arguments& arguments, const control::Request& request,
                          bool& later) {
  const auto is_mine = [&](const Probe& probe) {
    return !probe.is_watch() && probe.request().client == request.client;
  };
  if (arguments.words.size() == 1 && arguments.words.front() == "off") {
    std::erase_if(probes_, is_mine);
  } else if (!arguments.words.empty()) {
    if (std::count_if(probes_.begin(), probes_.end(), is_mine) >= kMostTripwires) {
      throw Error(ErrorKind::kUsage, cat("there are ", kMostTripwires, " tripwires of yours"),
                  "`tripwire off` takes them away");
    }
    probes_.push_back(Probe::tripwire(arguments, request));
    later = true;
    return {};
  }
  Result result;
  Json list = Json::array();
  for (const Probe& probe : probes_) {
    if (!is_mine(probe)) continue;
    list.push_back(probe.text());
    result.text += cat("the job is paused when ", probe.text(), "\n");
  }
  if (list.empty()) result.text = "there is no tripwire of yours\n";
  result.json = {{"tripwires", list}};
  return result;
}

void Host::end_watch(const Probe& probe) {
  reply(probe.request(), inspect::answer(control::text_in(probe.request().body, "input"),
                                         [&](const auto&, const auto&) { return probe.result(); }));
}

void Host::end_watches_if(const std::function<bool(const Probe&)>& over) {
  std::erase_if(probes_, [&](const Probe& probe) {
    const bool ends = probe.is_watch() && over(probe);
    if (ends) end_watch(probe);
    return ends;
  });
}

void Host::probed(size_t index, const inspect::Outcome& outcome, const train::Boundary& boundary) {
  const bool fresh = !probes_[index].begun();
  const uint64_t client = probes_[index].request().client;
  const std::string input = control::text_in(probes_[index].request().body, "input");
  if (outcome.error) {
    const Probe probe = std::move(probes_[index]);
    probes_.erase(probes_.begin() + static_cast<std::ptrdiff_t>(index));
    if (!fresh && probe.is_watch()) return end_watch(probe);
    inspect::Outcome refused = outcome;
    refused.input = input;
    if (fresh) return reply(probe.request(), refused);
    server_->event(client, {{"event", "tripwire"},
                            {"text", cat("the tripwire is gone: ", outcome.error->message)}});
    return;
  }
  const auto news = probes_[index].add(boundary.steps, boundary.metrics, outcome.result.json);
  const Probe probe = probes_[index];
  if (probe.is_over()) probes_.erase(probes_.begin() + static_cast<std::ptrdiff_t>(index));
  if (probe.is_watch()) {
    server_->event(client, {{"event", "watch"}, {"step", boundary.steps}, {"text", *news}});
    if (probe.is_over()) end_watch(probe);
    return;
  }
  if (fresh) {
    reply(probe.request(), inspect::answer(input, [&](const auto&, const auto&) {
            Result result;
            result.json = {{"tripwires", {probe.text()}}};
            result.text = cat("the job is paused when ", probe.text(), "\n");
            return result;
          }));
  }
  if (!news) return;
  if (!pause_.active()) begin_pause(client, boundary.steps);
  server_->event(client, {{"event", "tripwire"},
                          {"step", boundary.steps},
                          {"text", cat(*news, "; the job is paused for you")}});
  answer_step(boundary);
}

}  // namespace am::live
