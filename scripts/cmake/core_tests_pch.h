// Precompiled header of am_core_tests.
#pragma once

#include <catch2/catch.hpp>

#include "core_pch.h"
