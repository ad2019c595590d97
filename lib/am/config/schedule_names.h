// The pipeline schedules, as plans write them.
#pragma once

#include <array>
#include <string_view>

namespace am::config {

inline constexpr std::array<std::string_view, 7> kScheduleNames = {
    "gpipe",           "1f1b",       "interleaved_1f1b", "looped_bfs", "interleaved_zero_bubble",
    "zbv_zero_bubble", "dual_pipe_v"};

}  // namespace am::config
