#include "am/runtime/inquiry.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "am/base/rank_runs.h"
#include "am/base/text.h"
#include "am/runtime/store.h"

namespace am::runtime {

namespace {

using std::chrono::milliseconds;

// Number of ranks of a group that watch the states of the other ranks while a collective is late.
constexpr int64_t kWatchers = 2;
// Maximum number of runs (rank_runs()) in a rank's state, which lists the ranks of the group in
// which the rank waits. A longer list is published under a separate key.
constexpr size_t kMostRuns = 8;
// Delay after the loss of a connection, before the first rank reads the states. During this delay
// the other ranks lose their connections too, and publish their states.
constexpr milliseconds kAfterLoss{50};
constexpr size_t kMostText = 16 << 10;

double in_seconds(Inquiry::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::string members_key(const std::string& communicator) {
  return cat("watch/members/", communicator);
}

bool is_member(const std::vector<int64_t>& ranks, int64_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

milliseconds store_patience(int64_t world_size) { return milliseconds(1500 + world_size); }

Inquiry::Inquiry(c10d::Store& store, int64_t rank, int64_t world_size, GroupContext& context,
                 milliseconds interval, std::function<bool()> stopping)
    : store_(store),
      rank_(rank),
      patience_(store_patience(world_size)),
      context_(context),
      interval_(interval),
      stopping_(std::move(stopping)) {}

std::string Inquiry::key(const char* what, const Collective& collective) const {
  return cat("watch/", what, "/", collective.communicator->name, "/", collective.sequence);
}

double Inquiry::silent_limit() const {
  return std::max(3e-3 * static_cast<double>(interval_.count()), 0.5);
}

void Inquiry::publish() {
  const RankState state = context_.progress.state(rank_);
  Json json = state.to_json();
  if (!state.waiting_op.empty() && json["waiting"]["ranks"].size() > kMostRuns) {
    if (!std::exchange(published_members_[state.waiting_communicator], true)) {
      store_set(store_, members_key(state.waiting_communicator),
                dump_json(json["waiting"]["ranks"], -1));
    }
    json["waiting"].erase("ranks");
  }
  store_set(store_, launch::state_key(rank_), dump_json(json, /*indent=*/-1));
  published_ = Clock::now();
}

void Inquiry::rest() {
  heard_.clear();
  late_.clear();
}

void Inquiry::listen(const Collective& waiting) {
  const std::string name = key("late", waiting);
  if (name != late_) {
    heard_.clear();
    silence_.clear();
    place_ = store_.add(name, 1);
    late_ = name;
  }
  if (place_ > kWatchers) return;
  read_states(waiting);
  publish_silence(waiting);
}

// Reads from the store all states that find_stall() needs. If a state shows that a rank waits in
// another group, the next iteration reads the states of that group's ranks.
void Inquiry::read_states(const Collective& waiting) {
  std::vector<int64_t> known;
  for (;;) {
    std::vector<int64_t> ranks = ranks_to_ask(waiting, rank_, views(waiting));
    std::erase_if(ranks, [&](int64_t each) { return is_member(known, each); });
    if (ranks.empty()) return;
    std::vector<std::string> keys;
    for (const int64_t each : ranks) keys.push_back(launch::state_key(each));
    for (const auto& text : store_get_all(store_, keys)) {
      if (text) hear(RankState::from_json(Json::parse(*text)));
    }
    known.insert(known.end(), ranks.begin(), ranks.end());
  }
}

void Inquiry::hear(RankState state) {
  if (!state.waiting_op.empty() && state.waiting_ranks.empty()) {
    std::vector<int64_t>& members = members_[state.waiting_communicator];
    if (members.empty()) {
      const auto text = store_get(store_, members_key(state.waiting_communicator));
      if (text) members = ranks_in_runs(Json::parse(*text));
    }
    state.waiting_ranks = members;
  }
  const auto known = heard_.find(state.rank);
  if (known == heard_.end()) {
    heard_.emplace(state.rank, Heard{state, Clock::now()});
  } else if (known->second.state.beat != state.beat) {
    known->second = {std::move(state), Clock::now()};
  }
}

// Publishes {"RANK": [beat, seconds]} for the silent ranks. `beat` is the number of the last state
// that this rank read of the silent rank; `seconds` is the time since this state was first read. A
// reader that finds a state of RANK with another number ignores the entry, because RANK has
// published a new state and is therefore running.
void Inquiry::publish_silence(const Collective& waiting) {
  Json silence = Json::object();
  for (const auto& [peer, entry] : heard_) {
    const double silent = in_seconds(Clock::now() - entry.changed);
    if (silent >= silent_limit()) silence[std::to_string(peer)] = {entry.state.beat, silent};
  }
  std::string text = dump_json(silence, -1);
  if (silence.empty() && silence_.empty()) return;
  store_set(store_, cat(key("silence", waiting), "/", place_), text);
  silence_ = std::move(text);
}

// Returns the states that were read of other ranks, and this rank's own state, changed to show that
// this rank waits in `waiting`.
std::map<int64_t, PeerView> Inquiry::views(const Collective& waiting) {
  RankState own = context_.progress.state(rank_);
  set_waiting(own, waiting, own.waiting_seconds);
  std::map<int64_t, PeerView> views = {{rank_, {std::move(own), 0.0}}};
  for (const auto& [peer, entry] : heard_) {
    if (peer == rank_) continue;
    views[peer] = {entry.state, in_seconds(Clock::now() - entry.changed)};
  }
  return views;
}

void Inquiry::add_silence(const Collective& waiting, std::map<int64_t, PeerView>& views) {
  std::vector<std::string> keys;
  for (int64_t place = 1; place <= kWatchers; ++place) {
    keys.push_back(cat(key("silence", waiting), "/", place));
  }
  for (const auto& text : store_get_all(store_, keys)) {
    if (!text) continue;
    const Json silence = Json::parse(*text);
    for (const auto& [peer, seen] : silence.items()) {
      const auto view = views.find(std::stoll(peer));
      if (view == views.end() || !view->second.state || view->first == rank_) continue;
      if (view->second.state->beat != seen.at(0).get<uint64_t>()) continue;
      view->second.silent_seconds = std::max(view->second.silent_seconds, seen.at(1).get<double>());
    }
  }
}

Stall Inquiry::look(const Collective& collective, bool timed_out) {
  read_states(collective);
  auto all = views(collective);
  if (timed_out) add_silence(collective, all);
  // The silence limit applies to timeouts only: ranks notice a broken connection immediately,
  // before any rank can count as silent.
  return find_stall(collective, rank_, all, timed_out ? silent_limit() : 0.0);
}

int64_t Inquiry::take_place(const Collective& collective) {
  return store_.add(key("explains", collective), 1);
}

Stall Inquiry::explain(const Collective& collective, bool timed_out, int64_t place) {
  std::optional<Stall> verdict;
  if (place > 1) verdict = await_verdict(collective, place == 2 ? patience_ : 2 * patience_);
  if (place == 1 && !timed_out) std::this_thread::sleep_for(kAfterLoss);
  // Ignores a verdict that blames this rank for a timeout: the verdict is older than this rank's
  // published state, which shows that this rank waits in the collective too.
  if (verdict && !(timed_out && is_member(verdict->missing, rank_))) {
    std::erase(verdict->missing, rank_);
    return *std::move(verdict);
  }
  Stall stall = look(collective, timed_out);
  publish_verdict(collective, stall);
  return stall;
}

std::optional<Stall> Inquiry::read_verdict(const Collective& collective) {
  const auto text = store_get(store_, key("verdict", collective));
  if (!text) return std::nullopt;
  const Json json = Json::parse(*text);
  Stall stall;
  stall.missing = ranks_in_runs(json.at("missing"));
  stall.text = json.at("text").get<std::string>();
  stall.circle = json.at("circle").get<bool>();
  if (stall.circle) std::erase(stall.missing, rank_);
  return stall;
}

std::optional<Stall> Inquiry::await_verdict(const Collective& collective, milliseconds patience) {
  const auto end = Clock::now() + patience;
  milliseconds pause(20 + static_cast<int64_t>(collective.communicator->ranks.size()) / 4);
  for (;; pause += pause / 2) {
    if (auto verdict = read_verdict(collective)) return verdict;
    if (Clock::now() >= end || stopping_()) return std::nullopt;
    // Publishes during the wait too, so that this rank does not count as silent.
    if (Clock::now() - published_ >= interval_) publish();
    std::this_thread::sleep_for(pause);
  }
}

void Inquiry::publish_verdict(const Collective& collective, Stall stall) {
  // If ranks wait in a cycle, `stall` does not list this rank. The verdict, which other ranks read,
  // must list it.
  if (stall.circle) stall.missing.push_back(rank_);
  std::sort(stall.missing.begin(), stall.missing.end());
  if (stall.text.size() > kMostText) stall.text.resize(kMostText);
  store_set(store_, key("verdict", collective),
            dump_json(Json{{"missing", rank_runs(stall.missing)},
                           {"text", stall.text},
                           {"circle", stall.circle}},
                      -1));
}

}  // namespace am::runtime
