// The precompiled header of the tests on libtorch.
#pragma once

#include "torch_pch.h"

#include <catch2/catch.hpp>  // after libtorch, which has a CHECK of its own
