// Part of AttachServer: the commands `watch` and `tripwire`. Decides when their probes run and
// which client receives the results. Runs on rank 0's training thread, between two steps.
#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/control/frame.h"
#include "am/live/attach_server.h"

namespace am::live {

namespace {

using inspect::Arguments;
using inspect::Result;

constexpr std::ptrdiff_t kMostTripwires = 8;  // largest number of tripwires per client

void list(const Probe& tripwire, Result& result) {
  result.json["tripwires"].push_back(tripwire.text());
  result.text +=
      cat("set: the job will pause once this holds for a tensor: ", tripwire.text(), "\n");
}

}  // namespace

bool AttachServer::probe_is_due(int64_t steps) const {
  return std::any_of(probes_.begin(), probes_.end(),
                     [&](const Probe& probe) { return probe.is_due(steps); });
}

// Goes through the due probes in order. Runs those that read only the metrics of the step, up to
// the first probe that reads tensors, and returns the action that runs this probe. Returns nothing
// if no due probe reads tensors. During a pause, only probes that have not run yet are due.
std::optional<AttachServer::Turn> AttachServer::next_probe(const train::Boundary& boundary) {
  for (size_t i = 0; i < probes_.size();) {
    const Probe& probe = probes_[i];
    if (!probe.is_due(boundary.steps) || (pause_.active() && probe.begun())) {
      ++i;
    } else if (!probe.input().empty()) {
      return Turn{.kind = Kind::kCommand, .request = probe.request(), .probe = i};
    } else {
      probed(i, {}, boundary);  // afterwards the probe is not due or no longer in the list
    }
  }
  return std::nullopt;
}

// Returns whether the client waits for the result of this action. If the action runs a probe, the
// client waits only for the first run of a `tripwire`, because a `watch` is answered when it ends.
bool AttachServer::waits(const Turn& turn) const {
  if (!turn.probe) return true;
  const Probe& probe = probes_[*turn.probe];
  return !probe.is_watch() && !probe.begun();
}

void AttachServer::start_watch(const Arguments& arguments, const control::Request& request) {
  require_mine(request.client);
  if (pause_.active()) {
    throw Error(ErrorKind::kUsage, "the job is paused: there are no steps to watch",
                "`continue` ends the pause; `step N` runs N steps and pauses again");
  }
  for (const Probe& each : probes_) {
    if (each.is_watch() && each.request().client == request.client) {
      throw Error(ErrorKind::kUsage, "your other `watch` is still running");
    }
  }
  const auto who = server_->client(request.client);
  probes_.push_back(Probe::watch(arguments, request, who ? style_of(*who) : term::Style()));
}

Result AttachServer::set_tripwire(const Arguments& arguments, const control::Request& request,
                                  bool& later) {
  const auto is_mine = [&](const Probe& probe) {
    return !probe.is_watch() && probe.request().client == request.client;
  };
  if (arguments.words.size() == 1 && arguments.words.front() == "off") {
    std::erase_if(probes_, is_mine);
  } else if (!arguments.words.empty()) {
    if (std::count_if(probes_.begin(), probes_.end(), is_mine) >= kMostTripwires) {
      throw Error(ErrorKind::kUsage,
                  cat("you have ", kMostTripwires, " tripwires, which is the limit"),
                  "`tripwire off` removes them");
    }
    probes_.push_back(Probe::tripwire(arguments, request));
    later = true;
    return {};
  }
  Result result;
  result.json["tripwires"] = Json::array();
  for (const Probe& probe : probes_) {
    if (is_mine(probe)) list(probe, result);
  }
  if (result.text.empty()) result.text = "you have no tripwires\n";
  return result;
}

void AttachServer::end_watch(const Probe& probe, const std::string& failure) {
  reply(probe.request(), inspect::answer(control::text_in(probe.request().body, "input"),
                                         [&](const auto&, const auto&) {
                                           inspect::Result result = probe.result();
                                           if (failure.empty()) return result;
                                           result.json["failure"] = failure;
                                           result.text += cat("the watch ended: ", failure, "\n");
                                           return result;
                                         }));
}

void AttachServer::end_watches_if(const std::function<bool(const Probe&)>& over) {
  std::erase_if(probes_, [&](const Probe& probe) {
    const bool ends = probe.is_watch() && over(probe);
    if (ends) end_watch(probe);
    return ends;
  });
}

// Sends the error of a failed probe to its client, for example that no tensor has the given name.
// If the probe is a `watch` that has run before, the answer also contains its samples. The caller
// must have removed the probe from probes_.
void AttachServer::probe_failed(const Probe& probe, inspect::Outcome outcome) {
  if (!probe.begun()) {
    outcome.input = control::text_in(probe.request().body, "input");
    reply(probe.request(), outcome);
  } else if (probe.is_watch()) {
    end_watch(probe, outcome.error->message);
  } else {
    server_->event(probe.request().client,
                   {{"event", "tripwire"},
                    {"text", cat("the tripwire was removed: ", outcome.error->message)}});
  }
}

void AttachServer::probed(size_t index, const inspect::Outcome& outcome,
                          const train::Boundary& boundary) {
  const auto place = probes_.begin() + static_cast<std::ptrdiff_t>(index);
  const auto take = [&] {
    Probe probe = std::move(*place);
    probes_.erase(place);
    return probe;
  };
  if (outcome.error) return probe_failed(take(), outcome);
  const bool fresh = !place->begun();
  const uint64_t client = place->request().client;
  const auto news = place->add(boundary.steps, boundary.metrics, outcome.result.json);
  if (place->is_watch()) {
    if (news) {
      server_->event(client, {{"event", "watch"}, {"step", boundary.steps}, {"text", *news}});
    }
    if (place->is_over()) end_watch(take());
    return;
  }
  if (fresh) {
    const std::string input = control::text_in(place->request().body, "input");
    reply(place->request(), inspect::answer(input, [&](const auto&, const auto&) {
            Result result;
            list(*place, result);
            return result;
          }));
  }
  if (!news) return;
  take();
  if (!pause_.active()) begin_pause(client, boundary.steps);
  server_->event(client, {{"event", "tripwire"},
                          {"step", boundary.steps},
                          {"text", cat(*news, "; the job is paused for you")}});
  answer_step(boundary);
}

}  // namespace am::live
