// Settings that exist both in a framework's file and in a plan, one table row each, for the
// framework's writer and reader.
//
//   constexpr std::array<SharedKey, 2> kKeys = {{
//       {"training.steps", "train.max_steps", int64_t{10000}},
//       {"checkpoint.folder", "checkpoint.dir", {}, Form::kOptional},
//   }};
//   write_keys(kKeys, "training.", shape, out);   // out["training"]["steps"] = 500
//   read_keys(kKeys, "training.", builder);       // and back; 10000 if the file omits the key
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "am/frameworks/job_shape.h"
#include "am/frameworks/plan_builder.h"

namespace am::frameworks {

enum class Form {
  kSame,
  kOptional,   // not written if it is 0, false or empty
  kZeroIsOff,  // clipping norm: 0 in a plan means off, written as a very large number
};

struct SharedKey {
  std::string_view theirs;  // path joined by dots
  std::string_view ours;
  // The framework's default, if it differs from the plan's.
  std::variant<std::monostate, int64_t, double> absent = {};
  Form form = Form::kSame;
};

// Returns the value for the file; nothing if it is omitted, or the plan's strategy has no such key.
std::optional<Json> written_value(const SharedKey& key, const JobShape& shape);

// Convert the keys whose framework name begins with `theirs`, in the table's order.
void write_keys(std::span<const SharedKey> keys, std::string_view theirs, const JobShape& shape,
                Json& out);
void read_keys(std::span<const SharedKey> keys, std::string_view theirs, PlanBuilder& builder);

}  // namespace am::frameworks
