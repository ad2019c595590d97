#include "am/launch/nodes/node_report.h"

#include <algorithm>

#include "am/base/json_integer.h"

namespace am::launch {
namespace {

constexpr size_t kMostTailBytes = 8 * 1024;

Json tail_json(const std::vector<std::string>& tail) {
  size_t first = tail.size();
  size_t bytes = 0;
  while (first > 0 && bytes + tail[first - 1].size() <= kMostTailBytes) {
    bytes += tail[--first].size();
  }
  Json lines = Json::array();
  for (; first < tail.size(); ++first) lines.push_back(tail[first]);
  return lines;
}

}  // namespace

Json to_json(const RankExit& rank) {
  Json json = {
      {"rank", rank.rank},        {"node", rank.node},          {"exit_status", rank.exit_status},
      {"signal", rank.signal},    {"stopped", rank.stopped},    {"time", rank.time},
      {"log", rank.log.string()}, {"suspended", rank.suspended}};
  json["tail"] = tail_json(rank.tail);
  if (rank.error) json["error"] = to_json(*rank.error);
  if (!rank.position.empty()) json["position"] = rank.position;
  if (const auto& word = rank.last_word) {
    json["last_word"] = {{"whereabouts", word->whereabouts}, {"time", word->time}};
    if (word->step) json["last_word"]["step"] = *word->step;
  }
  return json;
}

RankExit rank_exit_from(const Json& json) {
  RankExit rank;
  rank.rank = integer_of(json.at("rank"));
  rank.node = integer_of(json.at("node"));
  rank.exit_status = json.at("exit_status").get<int>();
  rank.signal = json.at("signal").get<int>();
  rank.stopped = json.at("stopped").get<bool>();
  rank.suspended = json.at("suspended").get<bool>();
  rank.time = json.at("time").get<double>();
  rank.log = json.at("log").get<std::string>();
  rank.tail = json.at("tail").get<std::vector<std::string>>();
  if (json.contains("position")) rank.position = json.at("position").get<std::string>();
  if (json.contains("last_word")) {
    const Json& word = json.at("last_word");
    rank.last_word =
        LastWord{{}, word.at("whereabouts").get<std::string>(), word.at("time").get<double>()};
    if (word.contains("step")) rank.last_word->step = integer_of(word.at("step"));
  }
  if (json.contains("error")) rank.error = rank_error_from(json.at("error"));
  return rank;
}

std::string to_text(const NodeReport& report) {
  Json json = {{"ended_by_user", report.ended_by_user}};
  json["ranks"] = Json::array();
  for (const RankExit& rank : report.ranks) json["ranks"].push_back(to_json(rank));
  if (report.launcher_error) json["launcher_error"] = to_json(*report.launcher_error);
  return dump_json(json, -1);
}

std::optional<NodeReport> node_report_from(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    NodeReport report;
    report.ended_by_user = json.at("ended_by_user").get<bool>();
    for (const Json& rank : json.at("ranks")) report.ranks.push_back(rank_exit_from(rank));
    if (json.contains("launcher_error")) {
      report.launcher_error = rank_error_from(json.at("launcher_error"));
    }
    return report;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace am::launch
