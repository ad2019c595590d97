// Settings that exist both in a framework's file and in a plan. Each framework has a table of them,
// which its export and its import use.
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
  kSame,       // the values in the file and in the plan are equal
  kOptional,   // the values are equal, but a value that is 0, false or empty is not written
  kZeroIsOff,  // norm for clipping: 0 in a plan means off, which is written as a very large number
};

struct SharedKey {
  std::string_view theirs;  // the framework's key; names of tables and key are joined by dots
  std::string_view ours;    // the plan's key
  // The framework's default if it differs from the plan's: the value of an omitted key.
  std::variant<std::monostate, int64_t, double> absent = {};
  Form form = Form::kSame;
};

// Returns the value to write into the framework's file. Returns nullopt if nothing is to be written
// (kOptional), or if the plan's strategy does not have the key.
std::optional<Json> written_value(const SharedKey& key, const JobShape& shape);

// Convert, in the table's order, those keys whose SharedKey::theirs begins with `theirs`: from the
// plan to `out`, and from the builder's source to its plan.
void write_keys(std::span<const SharedKey> keys, std::string_view theirs, const JobShape& shape,
                Json& out);
void read_keys(std::span<const SharedKey> keys, std::string_view theirs, PlanBuilder& builder);

}  // namespace am::frameworks
