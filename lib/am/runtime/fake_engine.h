// The engine of World::fake, whose collectives complete immediately and leave tensors unchanged.
#pragma once

#include <memory>

#include "am/runtime/engine.h"

namespace am::runtime {

std::shared_ptr<Engine> fake_engine();

}  // namespace am::runtime
