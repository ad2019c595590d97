// Settings that a framework's file and a plan both have: a row each, which the framework's writer
// and its reader share.
//
//   constexpr std::array<SharedKey, 2> kKeys = {{
//       {"training.steps", "train.max_steps", int64_t{10000}},
//       {"checkpoint.folder", "checkpoint.dir", {}, Form::kOptional},
//   }};
//   write_keys(kKeys, "training.", shape, out);   // out["training"]["steps"] = 500
//   read_keys(kKeys, "training.", builder);       // and back; 10000 where the file is silent
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "am/exchange/job_shape.h"
#include "am/exchange/plan_builder.h"

namespace am::exchange {

enum class Form {
  kSame,
  kOptional,   // not written where it is 0, false or empty
  kZeroIsOff,  // of a norm: a plan says 0 for none, the framework wants a very large number
};

struct SharedKey {
  std::string_view theirs;  // a path joined by dots
  std::string_view ours;
  // The framework's default, where a plan has another.
  std::variant<std::monostate, int64_t, double> absent = {};
  Form form = Form::kSame;
};

// What the file says of it; nothing where it is left out, or the plan's strategy has no such key.
std::optional<Json> written_value(const SharedKey& key, const JobShape& shape);

// Of the keys whose name on the framework's side begins with `theirs`, in the table's order.
void write_keys(std::span<const SharedKey> keys, std::string_view theirs, const JobShape& shape,
                Json& out);
void read_keys(std::span<const SharedKey> keys, std::string_view theirs, PlanBuilder& builder);

}  // namespace am::exchange
