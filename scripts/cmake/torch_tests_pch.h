// Precompiled header of the tests that need libtorch.
#pragma once

#include "torch_pch.h"

#include <catch2/catch.hpp>  // after libtorch, which also defines CHECK
