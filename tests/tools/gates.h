// Collects the figures that a trial measures, each with its bound, and prints them.
//
//   Gates gates("nodes");
//   gates.at_most("bytes from node 0", bytes, 20e6, "B");
//   gates.print(json);
//   return gates.status();
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/base/text.h"

namespace am::test {

class Gates {
 public:
  explicit Gates(std::string trial) : trial_(std::move(trial)) {}

  void at_most(const std::string& what, double value, double bound, const std::string& unit = "") {
    add(what, value, unit, cat("<= ", text(bound)), value <= bound);
  }
  void equal(const std::string& what, double value, double wanted, const std::string& unit = "") {
    add(what, value, unit, text(wanted), value == wanted);
  }
  // Adds a figure without a bound.
  void tell(const std::string& what, double value, const std::string& unit = "") {
    add(what, value, unit, "", true);
  }

  void print(bool json) const {
    for (const Row& row : rows_) {
      if (json) {
        std::puts(dump_json(Json{{"trial", trial_},
                                 {"figure", row.what},
                                 {"value", row.value},
                                 {"unit", row.unit},
                                 {"gate", row.gate},
                                 {"ok", row.ok}},
                            -1)
                      .c_str());
      } else {
        std::printf("%-12s %-52s %14s %-4s %-12s %s\n", trial_.c_str(), row.what.c_str(),
                    text(row.value).c_str(), row.unit.c_str(), row.gate.c_str(),
                    row.gate.empty() ? ""
                    : row.ok         ? "ok"
                                     : "FAILS");
      }
    }
  }
  // Returns the exit status: 1 if a figure is outside its bound, else 0.
  int status() const {
    for (const Row& row : rows_) {
      if (!row.ok) return 1;
    }
    return 0;
  }

 private:
  struct Row {
    std::string what;
    double value = 0.0;
    std::string unit;
    std::string gate;
    bool ok = true;
  };

  static std::string text(double value) {
    char buffer[32];
    std::snprintf(buffer, sizeof(buffer),
                  value == static_cast<double>(static_cast<long>(value)) ? "%.0f" : "%.3f", value);
    return buffer;
  }
  void add(const std::string& what, double value, const std::string& unit, const std::string& gate,
           bool ok) {
    rows_.push_back({what, value, unit, gate, ok});
  }

  std::string trial_;
  std::vector<Row> rows_;
};

}  // namespace am::test
