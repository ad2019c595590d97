// The precompiled header of the sources that need no libtorch: 3 s a file become 1.6 s, most of it nlohmann's and
// <filesystem>'s. Sources include what they use all the same: clang-tidy compiles them without this.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>
