#include "am/pipeline/csv.h"

#include <random>

#include "support/pytorch_orders.h"

using am::Diagnostics;
using am::pipeline::make_schedule;
using am::pipeline::parse_csv;
using am::pipeline::to_csv;
using am::test::about;

namespace {

// A valid schedule of two ranks and two micro-batches, which tests corrupt.
const std::string kGood = "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1\n";

std::vector<std::string> errors(const std::string& text) {
  Diagnostics found;
  const auto csv = parse_csv(text, "s.csv", found);
  CHECK(csv.has_value() == found.ok());
  std::vector<std::string> out;
  for (const auto& item : found.items()) {
    if (item.severity != am::Severity::kError) continue;
    out.push_back(am::cat(item.span.file, ":", item.span.line, ":", item.span.column, "+",
                          item.span.length, " ", item.rule, " ", item.message));
  }
  return out;
}

std::string only(const std::string& text) {
  const auto found = errors(text);
  UNSCOPED_INFO(am::join(found, "\n"));
  REQUIRE(found.size() == 1);
  return found.front();
}

}  // namespace

TEST_CASE("every schedule comes back from its CSV", "[schedule]") {
  for (const auto name : am::pipeline::schedule_names()) {
    const int64_t v = name == "gpipe" || name == "1f1b" ? 1 : 2;
    for (const int64_t mb : {4, 8, 12}) {
      const am::pipeline::PipelineShape shape{std::string(name), 4, v, mb};
      if (violated_constraint(shape)) continue;
      INFO(about(shape));
      const auto schedule = make_schedule(shape);
      Diagnostics found;
      const auto csv = parse_csv(to_csv(schedule), "s.csv", found);
      CHECK(found.empty());
      REQUIRE(csv.has_value());
      CHECK(csv->schedule.ranks == schedule.ranks);
      CHECK(csv->schedule.owners == schedule.owners);
      CHECK(csv->schedule.microbatches == mb);
    }
  }
}

TEST_CASE("CSV files as other programs write them", "[schedule]") {
  for (const std::string& text :
       {kGood, std::string("0F0,0F1,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1\r\n\r\n"),
        std::string("\xEF\xBB\xBF\"0F0\",0F1, ,0B0 ,\"\",0B1\n, 1F0,1B0,1F1,1B1")}) {
    Diagnostics found;
    const auto csv = parse_csv(text, "s.csv", found);
    REQUIRE(csv.has_value());
    CHECK(to_csv(csv->schedule) == kGood);
  }
}

TEST_CASE("what is wrong with a schedule is found where it stands", "[schedule]") {
  CHECK(errors(kGood).empty());
  CHECK(am::starts_with(only("0F0,0F1,,0X0,,0B1\n,1F0,1B0,1F1,1B1\n"),
                        "s.csv:1:10+3 schedule.syntax \"0X0\" is not an action"));
  CHECK(only("0F0,0F1,0SEND_F1,0B0,,0B1\n,1F0,1B0,1F1,1B1\n") ==
        "s.csv:1:9+8 schedule.syntax 0SEND_F1 is not a pass");
  CHECK(only("0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,1F1\n") ==
        "s.csv:2:18+3 schedule.passes 1F1: stage 1 has this pass, or a part of it, on micro-batch "
        "1 already");
  CHECK(only("0F0,0F1,,0B0,,\n,1F0,1B0,1F1,1B1\n") ==
        "s.csv:1:1+1 schedule.passes 0B1 is missing on rank 0");
  CHECK(only("0F0,0F1,,0I0,,0B1\n,1F0,1B0,1F1,1B1\n") ==
        "s.csv:1:1+1 schedule.passes 0W0 is missing on rank 0");
  CHECK(only("0F0,0F1,,0B0,0W0,0B1\n,1F0,1B0,1F1,1B1\n") ==
        "s.csv:1:14+3 schedule.passes 0W0: stage 0 has this pass, or a part of it, on micro-batch "
        "0 already");
  CHECK(only("0B0,0F0,0F1,0B1\n,1F0,1B0,1F1,1B1\n") ==
        "s.csv:1:1+3 schedule.order 0B0 comes before 0F0");
  CHECK(only("0F0,0F1,,0W0,0I0,0B1\n,1F0,1B0,1F1,1B1\n") ==
        "s.csv:1:10+3 schedule.order 0W0 comes before 0I0");
  CHECK(only("0F0,0F1,,0B0,,\n,1F0,1B0,1F1,1B1,0B1\n") ==
        "s.csv:2:18+3 schedule.owner 0B1: stage 0 is on rank 0 already");
  CHECK(only("0F0,0F1,0B0,0B1\n\n1F0,1B0,1F1,1B1\n") ==
        "s.csv:2:1+1 schedule.passes rank 1 has no pass");
  CHECK(errors("").front() ==
        "s.csv:0:0+1 schedule.syntax the file has no line: a schedule has one line per rank");
}

TEST_CASE("a deadlock names every rank that waits", "[schedule]") {
  const auto found = errors("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n");
  REQUIRE(found.size() == 2);
  CHECK(found[0] ==
        "s.csv:1:5+3 schedule.deadlock rank 0 waits here forever: 0B0 needs the backward of "
        "stage 1 on micro-batch 0");
  CHECK(found[1] ==
        "s.csv:2:1+3 schedule.deadlock rank 1 waits here forever: 1F1 needs the forward of stage "
        "0 on micro-batch 1");
}

TEST_CASE("many errors are counted", "[schedule]") {
  std::string text;
  for (int m = 0; m < 200; ++m) text += am::cat(m == 0 ? "" : ",", "0F", m, ",0Q", m);
  Diagnostics found;
  CHECK_FALSE(parse_csv(text, "s.csv", found).has_value());
  CHECK(found.errors() == am::pipeline::kMostReported);
  CHECK(found.items().back().severity == am::Severity::kNote);
  CHECK(found.items().back().message == "and 180 more errors in this schedule");
}

TEST_CASE("absurd numbers make no absurd tables", "[schedule]") {
  CHECK(only("2147483647F0,0F0\n").find("too large for a file of") != std::string::npos);
  CHECK(only("0F2147483647\n").find("too large for a file of") != std::string::npos);
  std::string text = "0F0";
  for (int i = 1; i < 1000; ++i) text += ",";
  CHECK(only(text + ",1900F0,0F1900\n").find("names 1901 stages and 1901") != std::string::npos);
}

// Parsing a corrupted file terminates. An accepted schedule can be written as CSV and read again.
TEST_CASE("damaged files are refused or good", "[schedule]") {
  std::mt19937 random(3);
  const std::string alphabet = "0123456789FBIW,\n;()OVERLAP_F_B \"";
  const auto start = to_csv(make_schedule({"dual_pipe_v", 2, 2, 5}));
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = start;
    const int edits = 1 + static_cast<int>(random() % 3);
    for (int e = 0; e < edits; ++e) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 9);
          break;
        case 2:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
          break;
        default:
          std::swap(text[at], text[random() % text.size()]);
          break;
      }
    }
    Diagnostics found;
    const auto csv = parse_csv(text, "s.csv", found);
    REQUIRE(csv.has_value() == found.ok());
    if (!csv.has_value()) {
      ++refused;
      continue;
    }
    INFO(text);
    Diagnostics again;
    const auto same = parse_csv(to_csv(csv->schedule), "s.csv", again);
    REQUIRE(same.has_value());
    CHECK(same->schedule.ranks == csv->schedule.ranks);
  }
  CHECK(refused > 1000);
}
