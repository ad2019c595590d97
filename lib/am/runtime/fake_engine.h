// The engine of World::fake: its collectives complete immediately.
#pragma once

#include <memory>

#include "am/runtime/engine.h"

namespace am::runtime {

std::shared_ptr<Engine> fake_engine();

}  // namespace am::runtime
