// Preloaded, it simulates another version of libtorch, as libtorch's C interface reports it.
#include <cstdint>

extern "C" uint64_t aoti_torch_abi_version() { return uint64_t{0x020a000000000000}; }
