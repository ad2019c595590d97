// Settings that a framework's file and a plan have in common. Each framework has a table of them,
// for its export and its import.
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
  kOptional,   // equal values; a value that is 0, false or empty is not written
  kZeroIsOff,  // gradient norm limit: 0 in a plan is a very large number in the file
};

struct SharedKey {
  std::string_view theirs;  // the framework's key, with the names of its tables, joined by dots
  std::string_view ours;    // the plan's key
  // The framework's default, which an import uses if the file omits the key. If `absent` is empty,
  // the import keeps the plan's default.
  std::variant<std::monostate, int64_t, double> absent = {};
  Form form = Form::kSame;
};

// Returns the value to write to the framework's file. Returns nullopt if the value need not be
// written (kOptional) or the plan's strategy does not have the key.
std::optional<Json> written_value(const SharedKey& key, const JobShape& shape);

// Convert the settings in `keys` whose names in the framework's file begin with `theirs`, in the
// order of `keys`. write_keys() writes the plan's values to `out`; read_keys() sets the values of
// the builder's plan from the builder's source.
void write_keys(std::span<const SharedKey> keys, std::string_view theirs, const JobShape& shape,
                Json& out);
void read_keys(std::span<const SharedKey> keys, std::string_view theirs, PlanBuilder& builder);

}  // namespace am::frameworks
