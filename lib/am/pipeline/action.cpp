#include "am/pipeline/action.h"

#include <algorithm>
#include <limits>

#include "am/base/number.h"
#include "am/base/text.h"

namespace am::pipeline {
namespace {

constexpr std::array<const char*, 11> kNames = {"F",       "I",       "W",          "B",
                                                "UNSHARD", "RESHARD", "SEND_F",     "RECV_F",
                                                "SEND_B",  "RECV_B",  "REDUCE_GRAD"};
constexpr std::string_view kPair = "OVERLAP_F_B";
constexpr std::string_view kDigits = "0123456789";

std::optional<Kind> parse_kind(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Kind>(found - kNames.begin());
}

std::optional<int32_t> parse_index(std::string_view text) {
  const auto value = parse_integer(text);
  if (!value.has_value() || *value < 0 || *value > std::numeric_limits<int32_t>::max()) {
    return std::nullopt;
  }
  return static_cast<int32_t>(*value);
}

void explain(std::string* why, std::string text) {
  if (why != nullptr) *why = std::move(text);
}

std::optional<Action> parse_action(std::string_view text, std::string* why) {
  const size_t name_at = std::min(text.find_first_not_of(kDigits), text.size());
  const size_t number_at = std::min(text.find_first_of(kDigits, name_at), text.size());
  const std::string_view name = text.substr(name_at, number_at - name_at);
  const auto stage = parse_index(text.substr(0, name_at));
  const auto kind = parse_kind(name);
  if (name_at == 0 || !kind.has_value()) {
    explain(why, "an action is a stage, a kind and a micro-batch, for example 2F0");
    return std::nullopt;
  }
  if (!stage.has_value()) {
    explain(why, "this stage number is too large");
    return std::nullopt;
  }
  Action action{*kind, *stage, -1};
  const std::string_view number = text.substr(number_at);
  if (!has_micro_batch(*kind)) {
    if (number.empty()) return action;
    explain(why, cat(name, " applies to a whole stage and takes no micro-batch"));
    return std::nullopt;
  }
  if (number.empty()) {
    explain(why, cat(name, " needs a micro-batch, for example ", *stage, name, "0"));
    return std::nullopt;
  }
  const auto micro_batch = parse_index(number);
  if (!micro_batch.has_value()) {
    explain(why, "the text after the kind is not a micro-batch");
    return std::nullopt;
  }
  action.micro_batch = *micro_batch;
  return action;
}

std::optional<Slot> parse_pair(std::string_view text, std::string* why) {
  const size_t close = text.find(')');
  const size_t middle = text.find(';');
  const std::string_view form =
      "a pair is a forward and a backward, for example (2F1;5B0)OVERLAP_F_B";
  if (close == std::string_view::npos || text.substr(close + 1) != kPair || middle > close) {
    explain(why, std::string(form));
    return std::nullopt;
  }
  const auto first = parse_action(trim(text.substr(1, middle - 1)), why);
  if (!first.has_value()) return std::nullopt;
  const auto second = parse_action(trim(text.substr(middle + 1, close - middle - 1)), why);
  if (!second.has_value()) return std::nullopt;
  if (first->kind != Kind::kForward || !makes_input_gradient(second->kind)) {
    explain(why, std::string(form));
    return std::nullopt;
  }
  return Slot(*first, *second);
}

}  // namespace

const char* to_string(Kind kind) { return kNames[static_cast<size_t>(kind)]; }

std::string to_string(const Action& action) {
  std::string text = std::to_string(action.stage) + to_string(action.kind);
  if (action.micro_batch >= 0) text += std::to_string(action.micro_batch);
  return text;
}

std::string to_string(const Slot& slot) {
  if (slot.is_bubble()) return {};
  const auto actions = slot.actions();
  if (!slot.is_pair()) return to_string(actions[0]);
  return "(" + to_string(actions[0]) + ";" + to_string(actions[1]) + ")" + std::string(kPair);
}

std::optional<Slot> parse_slot(std::string_view text, std::string* why) {
  text = trim(text);
  if (text.empty()) return Slot();
  if (text.front() == '(') return parse_pair(text, why);
  const auto action = parse_action(text, why);
  if (!action.has_value()) return std::nullopt;
  return Slot(*action);
}

}  // namespace am::pipeline
