#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <limits>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/charts.h"
#include "am/mesh/indices.h"
#include "am/term/wrap.h"
#include "am/values/commands/functions.h"
#include "am/values/moments.h"
#include "am/values/scan.h"

namespace am::values {
namespace {

enum class HeatOf { kMean, kMax, kSigned };

HeatOf heat_of(const Arguments& arguments) {
  const std::string of = arguments.value("--of", "mean");
  if (of == "mean") return HeatOf::kMean;
  if (of == "max") return HeatOf::kMax;
  if (of == "signed") return HeatOf::kSigned;
  throw Error(ErrorKind::kUsage, cat("--of: expected mean, max or signed, not `", of, "`"));
}

// Size of a tensor that is viewed as a matrix: the row index combines all dims except the last. A
// vector is one row.
struct MatrixSize {
  int64_t rows = 1;
  int64_t columns = 1;
};

MatrixSize matrix_of(const Shape& shape) {
  if (shape.empty()) return {};
  return {shape.back() == 0 ? 0 : am::numel(shape) / shape.back(), shape.back()};
}

// Statistics of each block of the matrix: sum and largest of the finite values, number of all
// values (count), and number of non-finite values (bad). Sum and largest are of x for --of signed,
// otherwise of |x|.
struct HeatSums {
  at::Tensor sum, count, largest, bad;  // each [height * width of the heat map], float64
};

// Divides the picked tensor, viewed as a matrix, into at most `height` x `width` blocks. Each cell
// of the heat map shows one block.
class HeatMap {
 public:
  HeatMap(const Picked& picked, HeatOf of, int64_t height, int64_t width)
      : picked_(picked), of_(of), size_(matrix_of(picked.selection.box.shape)) {
    height_ = std::min(height, size_.rows);
    width_ = std::min(width, size_.columns);
    const auto options = at::TensorOptions(at::kDouble);
    sums_ = {at::zeros({height_ * width_}, options), at::zeros({height_ * width_}, options),
             at::zeros({height_ * width_}, options), at::zeros({height_ * width_}, options)};
  }

  void add(const at::Tensor& block, const mesh::Box& box) {
    const Shape& origin = picked_.selection.box.offset;
    const Shape& whole = picked_.selection.box.shape;
    mesh::Box above;
    for (size_t dim = 0; dim + 1 < whole.size(); ++dim) {
      above.offset.push_back(box.offset[dim] - origin[dim]);
      above.shape.push_back(box.shape[dim]);
    }
    const std::span<const int64_t> leading = std::span(whole).first(above.shape.size());
    const int64_t first = box.shape.empty() ? 0 : box.offset.back() - origin.back();
    const int64_t count = box.shape.empty() ? 1 : box.shape.back();
    const at::Tensor values = to_numbers(block).reshape({-1, count}).contiguous();
    for (int64_t row = 0; row < values.size(0); ++row) {
      const int64_t line = mesh::flat_index(above, leading, row) * height_ / size_.rows;
      add_row(values.const_data_ptr<double>() + row * count, count, first, line * width_);
    }
  }

  // Returns the heat map from the sums of all ranks. Collective.
  inspect::Grid finish(Session& session) const {
    const at::Tensor all = values_of(session).gather(at::cat({sums_.sum, sums_.count, sums_.bad}));
    const at::Tensor added = all.sum(0).reshape({3, -1});
    const at::Tensor largest = std::get<0>(values_of(session).gather(sums_.largest).max(0));
    const at::Tensor value = of_ == HeatOf::kMax ? largest : added[0] / added[1];
    const at::Tensor cells = value
                                 .masked_fill(added[2].gt(0.0).logical_or(added[1].eq(0.0)),
                                              std::numeric_limits<double>::quiet_NaN())
                                 .contiguous();
    inspect::Grid grid{height_, width_, {}, 0.0, 0.0};
    grid.cells.assign(cells.const_data_ptr<double>(),
                      cells.const_data_ptr<double>() + cells.numel());
    const at::Tensor usable = cells.masked_select(cells.isfinite());
    if (usable.numel() > 0) {
      grid.low = usable.min().item<double>();
      grid.high = usable.max().item<double>();
    }
    return grid;
  }

 private:
  void add_row(const double* values, int64_t count, int64_t first, int64_t cell_row) {
    auto* sum = sums_.sum.data_ptr<double>() + cell_row;
    auto* seen = sums_.count.data_ptr<double>() + cell_row;
    auto* largest = sums_.largest.data_ptr<double>() + cell_row;
    auto* bad = sums_.bad.data_ptr<double>() + cell_row;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t cell = (first + i) * width_ / size_.columns;
      const double value = of_ == HeatOf::kSigned ? values[i] : std::abs(values[i]);
      seen[cell] += 1.0;
      if (std::isfinite(value)) {
        sum[cell] += value;
        largest[cell] = std::max(largest[cell], value);
      } else {
        bad[cell] += 1.0;
      }
    }
  }

  const Picked& picked_;
  HeatOf of_;
  MatrixSize size_;
  int64_t height_ = 0;
  int64_t width_ = 0;
  HeatSums sums_;
};

// Returns the cells of a row in colour. Neighbouring cells of equal colour share one escape
// sequence of the terminal.
std::string coloured_row(const inspect::Grid& grid, int64_t row, const term::Style& style) {
  constexpr int kNone = -1;  // a value that is not finite
  std::string out;
  std::string run;
  int shade = kNone;
  const auto end_run = [&] {
    out += shade == kNone ? style.paint(term::Role::kError, run) : style.paint_shade(shade, run);
    run.clear();
  };
  const double largest = grid.largest();
  for (int64_t column = 0; column < grid.width; ++column) {
    const double value = grid.at(row, column);
    int next = kNone;
    if (std::isfinite(value)) {
      next = grid.diverging ? term::diverging_shade(largest > 0.0 ? value / largest : 0.0)
                            : term::shade_of(grid.share(row, column));
    }
    if (next != shade) end_run();
    shade = next;
    run += next == kNone ? '!' : ' ';
  }
  end_run();
  return out;
}

// Draws the heat map of a matrix of size `size`. Each line shows one row of blocks, and
// begins with the number of the first matrix row in these blocks. If there is space, a last line
// shows the numbers of the first and the last matrix column.
std::string draw_heat(const inspect::Grid& grid, const MatrixSize& size, const term::Style& style) {
  static constexpr std::array<const char*, 5> kShades = {" ", "░", "▒", "▓", "█"};
  static constexpr std::array<const char*, 5> kLetters = {" ", ".", "+", "#", "@"};
  const auto& shades = style.unicode ? kShades : kLetters;
  const int label = static_cast<int>(std::to_string(std::max<int64_t>(size.rows - 1, 0)).size());
  const std::string edge = style.unicode ? "│" : "|";
  std::string out;
  for (int64_t row = 0; row < grid.height; ++row) {
    // The first row of the matrix that is in this row of blocks.
    const int64_t first = (row * size.rows + grid.height - 1) / grid.height;
    out += cat(term::pad_left(std::to_string(first), label), " ", edge);
    if (style.color) out += coloured_row(grid, row, style);
    for (int64_t column = 0; column < grid.width && !style.color; ++column) {
      const bool usable = std::isfinite(grid.at(row, column));
      const auto shade =
          static_cast<size_t>(usable ? std::clamp(grid.share(row, column) * 5.0, 0.0, 4.0) : 0.0);
      out += usable ? std::string(shades.at(shade)) : style.paint(term::Role::kError, "!");
    }
    out += edge + "\n";
  }
  const std::string last = std::to_string(std::max<int64_t>(size.columns - 1, 0));
  const int between = static_cast<int>(grid.width) - static_cast<int>(last.size());
  if (between > 1) {
    out += cat(term::repeat(" ", label + 2), term::pad_right("0", between), last, "\n");
  }
  return out;
}

// Returns the meaning of the shades or colours.
std::string legend(const inspect::Grid& grid, const Session& session) {
  const auto number = [&](double value) { return format_general(value, session.digits()); };
  const bool color = session.style().color;
  if (color && grid.diverging) {
    return cat("blue ", number(-grid.largest()), ", grey 0, orange ", number(grid.largest()));
  }
  return cat(color ? "blue " : "light ", number(grid.low), color ? ", yellow " : ", dark ",
             number(grid.high));
}

}  // namespace

Result run_heat(Session& session, const Arguments& arguments) {
  const at::NoGradGuard no_grad;
  const Picked picked = pick_one(session, arguments.words);
  if (picked.numel() == 0) throw Error(ErrorKind::kUsage, cat(picked.label, " has no elements"));
  const HeatOf of = heat_of(arguments);
  // The default height leaves room for the command, the legend and the next prompt.
  const int64_t height =
      arguments.integer("--rows", std::clamp(session.style().height - 4, 8, 1000), 1, 1000);
  const int64_t width = arguments.integer(
      "--columns", std::clamp(session.style().width - 12, 8, session.style().window ? 1000 : 96), 1,
      1000);
  HeatMap map(picked, of, height, width);
  scan(session, picked,
       [&](const at::Tensor& block, const mesh::Box& box) { map.add(block, box); });
  inspect::Grid grid = map.finish(session);
  grid.diverging = of == HeatOf::kSigned;
  const MatrixSize size = matrix_of(picked.selection.box.shape);
  Json cells = Json::array();
  for (int64_t row = 0; row < grid.height; ++row) {
    Json line = Json::array();
    for (int64_t column = 0; column < grid.width; ++column) {
      line.push_back(number_or_null(grid.at(row, column)));
    }
    cells.push_back(std::move(line));
  }
  static constexpr std::array<const char*, 3> kNames = {"mean", "max", "signed"};
  static constexpr std::array<const char*, 3> kTitles = {"mean of |x|", "largest |x|", "mean of x"};
  Result result;
  result.json = {{"name", picked.label}, {"of", kNames.at(static_cast<size_t>(of))},
                 {"rows", size.rows},    {"columns", size.columns},
                 {"low", grid.low},      {"high", grid.high},
                 {"cells", cells}};
  const std::string what = kTitles.at(static_cast<size_t>(of));
  result.text = draw_heat(grid, size, session.style());
  result.text += term::fold(
      cat(what, " over blocks of ", format_general(static_cast<double>(size.rows) / grid.height, 4),
          " x ", format_general(static_cast<double>(size.columns) / grid.width, 4), " values; ",
          legend(grid, session), "; ! marks blocks with NaN or infinities\n"),
      session.style());
  result.svg = grid_svg(cat(picked.label, ": ", what), grid);
  write_picture(session, arguments, result);
  return result;
}

}  // namespace am::values
