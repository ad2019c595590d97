// Connects codecs to the members of a section's struct. The files fields_*.cpp use this header.
//
//   FieldBuilder mesh("mesh", [](auto& plan) -> auto& { return plan.mesh; }, out);
//   mesh.add("tp_size", &MeshSection::tp_size, Integer{1}, "Tensor parallel size.");
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "am/base/text.h"
#include "am/config/field.h"

namespace am::config {

// Each function appends the keys of its sections to the field table.
void add_model_fields(std::vector<FieldSpec>& out);     // [model]
void add_mesh_fields(std::vector<FieldSpec>& out);      // [mesh]
void add_strategy_fields(std::vector<FieldSpec>& out);  // [strategy]
void add_lora_fields(std::vector<FieldSpec>& out);      // [lora]
void add_training_fields(std::vector<FieldSpec>& out);  // [pipeline] to [scheduler], except [lora]
void add_data_fields(std::vector<FieldSpec>& out);      // [data], [validation]
void add_output_fields(std::vector<FieldSpec>& out);    // [checkpoint] to [cluster]

// Appends the keys of one section to the field table. `Access` is the type of a function that
// returns a reference to the section's struct in a Plan or a const Plan.
template <typename Access>
class FieldBuilder {
 public:
  FieldBuilder(std::string section, Access access, std::vector<FieldSpec>& out)
      : section_(std::move(section)), access_(access), out_(out) {}

  // Assigns the keys that are added after this call to one strategy.
  FieldBuilder& of_strategy(std::string name) {
    strategy_ = std::move(name);
    return *this;
  }

  // Adds a key whose value is stored in `member` of the section's struct. `help`: description of
  // the key for users. The returned reference is valid until the next call of add().
  template <typename Section, typename T, typename Codec>
  FieldSpec& add(std::string key, T Section::*member, Codec codec, std::string help) {
    FieldSpec spec;
    spec.section = section_;
    spec.key = std::move(key);
    spec.strategy = strategy_;
    spec.type = codec.type();
    spec.help = std::move(help);
    spec.schema = codec.schema();
    spec.set = [access = access_, member, codec](const Input& input, Plan& plan) {
      if (auto value = codec.read(input)) access(plan).*member = std::move(*value);
    };
    spec.get = [access = access_, member, codec](const Plan& plan) {
      return codec.write(access(plan).*member);
    };
    out_.push_back(std::move(spec));
    return out_.back();
  }

 private:
  std::string section_;
  std::string strategy_;
  Access access_;
  std::vector<FieldSpec>& out_;
};

// ---- functions for FieldSpec::is_path -----------------------------------------------------------

inline bool is_any_path(std::string_view text) { return !text.empty(); }
inline bool is_path_unless_auto_or_none(std::string_view text) {
  return text != "auto" && text != "none";
}

}  // namespace am::config
