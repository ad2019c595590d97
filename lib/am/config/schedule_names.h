// Names of the pipeline schedules that a plan can choose. Instead of a name, a plan can contain the
// path of a CSV file with a schedule.
#pragma once

#include <array>
#include <string_view>

namespace am::config {

inline constexpr std::array<std::string_view, 7> kScheduleNames = {
    "gpipe",           "1f1b",       "interleaved_1f1b", "looped_bfs", "interleaved_zero_bubble",
    "zbv_zero_bubble", "dual_pipe_v"};

// Whether `text`, the value of pipeline.schedule, is the path of a CSV file with a schedule
// (pipeline/csv.h): whether it ends in ".csv".
inline bool is_schedule_file(std::string_view text) {
  return text.size() > 4 && text.substr(text.size() - 4) == ".csv";
}

}  // namespace am::config
