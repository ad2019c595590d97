// What runs, and what README says of it.
#include "am/planner/runs.h"

#include <catch2/catch.hpp>
#include <set>
#include <sstream>
#include <string>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/model/family.h"

namespace am::planner {
namespace {

// The names before the colon of a cell "llama, mistral: logits ...".
std::set<std::string> names_in(const std::string& cell) {
  std::set<std::string> names;
  std::istringstream text(cell.substr(0, cell.find(':')));
  for (std::string name; std::getline(text, name, ',');) {
    const auto first = name.find_first_not_of(' ');
    name = name.substr(first, name.find_last_not_of(' ') - first + 1);
    if (!starts_with(name, "and ")) names.insert(name);
  }
  return names;
}

}  // namespace

TEST_CASE("README names the families that are planned and those that run") {
  const std::string readme = read_file(cat(AM_SOURCE_DIR, "/README.md"));
  const size_t row = readme.find("\n| models |");
  REQUIRE(row != std::string::npos);
  std::istringstream cells(readme.substr(row + 1, readme.find('\n', row + 1) - row));
  std::string cell, planned, running;
  std::getline(cells, cell, '|');  // nothing
  std::getline(cells, cell, '|');  // "models"
  std::getline(cells, planned, '|');
  std::getline(cells, running, '|');
  std::set<std::string> families;
  for (const model::Family* family : model::families()) families.emplace(family->model_type);
  CHECK(names_in(planned) == families);
  const auto runs = runnable_families();
  CHECK(names_in(running) == std::set<std::string>(runs.begin(), runs.end()));
}

}  // namespace am::planner
