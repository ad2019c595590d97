#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/values/commands/functions.h"
#include "am/values/tensor_files.h"

namespace am::values {
namespace {

// Largest number of elements that are printed in full. In larger tensors, the middle of each dim
// with more than 2 * kEdgeItems indices is omitted, as in torch.
constexpr int64_t kShownWhole = 1000;
constexpr int64_t kEdgeItems = 3;  // indices printed at each end of a dim whose middle is omitted
constexpr int64_t kMostInJson = 1'000'000;

constexpr int kUnlimited = 1 << 30;  // number of columns: rows are not broken

// Returns a value as JSON. NaN and infinities become strings, because JSON has no numbers for them.
Json scalar(const at::Tensor& value) {
  if (value.scalar_type() == at::kBool) return value.item<bool>();
  if (!value.is_floating_point()) return value.item<int64_t>();
  const double number = value.item<double>();
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return number;
}

Json nested(const at::Tensor& values) {
  if (values.dim() == 0) return scalar(values);
  Json list = Json::array();
  for (int64_t i = 0; i < values.size(0); ++i) list.push_back(nested(values[i]));
  return list;
}

// Formats a tensor as nested brackets. All values are padded to the same width.
class Printer {
 public:
  // Breaks rows between values, to keep each line within `columns` columns where possible.
  Printer(const at::Tensor& values, int digits, int columns)
      : elide_(values.numel() > kShownWhole), digits_(digits), columns_(columns) {
    measure(values);
    text_ = draw(values, 0);
  }

  std::string text() const { return text_ + "\n"; }
  bool elided() const { return elide_; }

 private:
  std::string cell(const at::Tensor& value) const {
    if (!value.is_floating_point()) return std::to_string(value.item<int64_t>());
    return format_general(value.item<double>(), digits_);
  }

  // Returns the indices that are printed of a dim with `size` indices; -1 stands for the omitted
  // middle.
  std::vector<int64_t> shown(int64_t size) const {
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < size; ++i) {
      if (elide_ && size > 2 * kEdgeItems && i == kEdgeItems) {
        indices.push_back(-1);
        i = size - kEdgeItems;
      }
      indices.push_back(i);
    }
    return indices;
  }

  // Sets width_ to the width of the longest printed value.
  void measure(const at::Tensor& values) {
    if (values.dim() == 0) {
      width_ = std::max(width_, cell(values).size());
      return;
    }
    for (const int64_t i : shown(values.size(0))) {
      if (i >= 0) measure(values[i]);
    }
  }

  std::string draw(const at::Tensor& values, size_t depth) const {
    if (values.dim() == 0) {
      const std::string text = cell(values);
      return std::string(width_ - text.size(), ' ') + text;
    }
    const bool row = values.dim() == 1;
    const std::string margin = ",\n" + std::string(depth + 1, ' ');
    std::string text = "[";
    size_t line = depth + 1;  // number of columns of the current line
    bool first = true;
    for (const int64_t i : shown(values.size(0))) {
      const std::string each = i < 0 ? "..." : draw(values[i], depth + 1);
      // Reserves columns for the text after the value: ", ", or the closing brackets.
      const bool full = row && line + each.size() + 2 + depth + 1 > static_cast<size_t>(columns_);
      if (!first) text += row && !full ? ", " : margin;
      line = (first || full ? depth + 1 : line + 2) + each.size();
      first = false;
      text += each;
    }
    return text + "]";
  }

  bool elide_;
  int digits_;
  int columns_;
  size_t width_ = 0;
  std::string text_;
};

Result print_one(Session& session, const Picked& picked) {
  const at::NoGradGuard no_grad;
  const inspect::Selection& selection = picked.selection;
  const at::Tensor values =
      values_of(session).read(*picked.parameter, selection.box).reshape(selection.shape);
  Result result;
  result.json = {{"name", picked.parameter->name},
                 {"shape", selection.shape},
                 {"dtype", formats::torch_name(picked.parameter->dtype)}};
  if (session.for_programs()) {
    result.json["values"] = nested(values);
    return result;
  }
  const Printer printer(values, session.digits(),
                        session.style().window ? session.style().width : kUnlimited);
  result.text = printer.text();
  if (printer.elided()) {
    result.text += session.style().paint(
        term::Role::kDim,
        cat(shape_text(selection.shape),
            ": the middle is left out; print a slice to see all of its values\n"));
  }
  return result;
}

// Prints a stored value that is not a tensor, for example a learning rate. Returns nullopt if the
// command's operand does not name a stored value of this kind.
std::optional<Result> print_value(const Session& session, const Arguments& arguments) {
  const std::vector<std::string> names = session.view().value_names();
  const std::string name = arguments.text();
  if (std::find(names.begin(), names.end(), name) == names.end()) return std::nullopt;
  Result result;
  result.json = {{"name", name}, {"value", session.view().value(name)}};
  constexpr size_t kOneLine = 100;
  result.text = dump_json(result.json["value"], -1);
  if (result.text.size() > kOneLine) result.text = dump_json(result.json["value"]);
  result.text += "\n";
  return result;
}

}  // namespace

Result run_print(Session& session, const Arguments& arguments) {
  if (auto value = print_value(session, arguments)) {
    if (!arguments.has("--to")) return std::move(*value);
    throw Error(ErrorKind::kUsage, cat("`", arguments.text(), "` is not a tensor"),
                "--to writes tensors");
  }
  const std::vector<Picked> all = pick_tensors(session, arguments.words);
  if (arguments.has("--to")) {
    return written_tensors(session, all, arguments.value("--to", ""), arguments.has("--force"));
  }
  int64_t elements = 0;
  for (const Picked& picked : all) elements += picked.numel();
  if (session.for_programs() && elements > kMostInJson) {
    throw Error(ErrorKind::kUsage,
                cat("--json prints at most ", format_count(kMostInJson), " values, but ",
                    format_count(elements), " are selected"),
                "print a slice of the tensor, or `export` the model");
  }
  if (all.size() == 1) return print_one(session, all.front());
  Result result;
  result.json["tensors"] = Json::array();
  for (const Picked& picked : all) {
    const Result one = print_one(session, picked);
    result.json["tensors"].push_back(one.json);
    result.text += session.style().paint(term::Role::kBold, picked.label) + "\n" + one.text;
    session.check_interrupt();
  }
  return result;
}

}  // namespace am::values
