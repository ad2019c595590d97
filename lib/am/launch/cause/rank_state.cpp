#include "am/launch/cause/rank_state.h"

#include <algorithm>

#include "am/base/error.h"
#include "am/base/json_integer.h"
#include "am/base/rank_runs.h"
#include "am/base/text.h"
#include "am/base/units.h"

namespace am::launch {

std::string RankState::whereabouts() const {
  std::string text;
  if (step) text = cat("at step ", *step, ", ");
  if (waiting_op.empty()) return text + "in no collective";
  return cat(text, "in ", waiting_op, " ", waiting_group, " #", waiting_sequence, " for ",
             format_duration(waiting_seconds));
}

Json RankState::to_json() const {
  Json json = {{"rank", rank}, {"beat", beat}, {"time", time}, {"issued", Json::object()}};
  for (const auto& [communicator, count] : issued) json["issued"][communicator] = count;
  if (step) json["step"] = *step;
  if (!failed.empty()) json["failed"] = failed;
  if (!waiting_op.empty()) {
    json["waiting"] = {{"op", waiting_op},
                       {"group", waiting_group},
                       {"communicator", waiting_communicator},
                       {"sequence", waiting_sequence},
                       {"ranks", rank_runs(waiting_ranks)},
                       {"seconds", waiting_seconds}};
  }
  return json;
}

RankState RankState::from_json(const Json& json) {
  RankState state;
  try {
    state.rank = integer_of(json.at("rank"));
    state.beat = json.at("beat").get<uint64_t>();
    state.time = json.at("time").get<double>();
    state.issued = json.at("issued").get<std::map<std::string, uint64_t>>();
    if (json.contains("step")) state.step = integer_of(json.at("step"));
    state.failed = json.value("failed", "");
    if (json.contains("waiting")) {
      const Json& waiting = json.at("waiting");
      state.waiting_op = waiting.at("op").get<std::string>();
      state.waiting_group = waiting.at("group").get<std::string>();
      state.waiting_communicator = waiting.at("communicator").get<std::string>();
      state.waiting_sequence = waiting.at("sequence").get<uint64_t>();
      state.waiting_ranks = ranks_in_runs(waiting.value("ranks", Json::array()));
      state.waiting_seconds = waiting.at("seconds").get<double>();
    }
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kFormat, cat("a rank's published state: ", json_reason(error)));
  }
  return state;
}

std::chrono::milliseconds state_interval(std::chrono::milliseconds timeout, int64_t world_size) {
  using std::chrono::milliseconds;
  return std::clamp(timeout / 20, milliseconds(100),
                    milliseconds(std::max<int64_t>(2000, world_size)));
}

// torch.distributed adds this prefix to its keys in torchrun's store. Each attempt therefore uses
// its own keys.
std::string attempt_prefix(int64_t restart_count) { return cat("/worker/attempt_", restart_count); }

std::string state_key(int64_t rank) { return cat("watch/", rank); }

std::string state_key_in_store(int64_t restart_count, int64_t rank) {
  return cat(attempt_prefix(restart_count), "/", state_key(rank));
}

}  // namespace am::launch
