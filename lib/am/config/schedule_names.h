// Names of the pipeline schedules that a plan can choose. A plan can also name a CSV file.
#pragma once

#include <array>
#include <string_view>

namespace am::config {

inline constexpr std::array<std::string_view, 7> kScheduleNames = {
    "gpipe",           "1f1b",       "interleaved_1f1b", "looped_bfs", "interleaved_zero_bubble",
    "zbv_zero_bubble", "dual_pipe_v"};

// Whether the value of pipeline.schedule is the path of a CSV file (pipeline/csv.h).
inline bool is_schedule_file(std::string_view text) {
  return text.size() > 4 && text.substr(text.size() - 4) == ".csv";
}

}  // namespace am::config
