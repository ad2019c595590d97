// A library that, if preloaded, makes libtorch's C interface report another version of libtorch.
#include <cstdint>

extern "C" uint64_t aoti_torch_abi_version() { return uint64_t{0x020a000000000000}; }
