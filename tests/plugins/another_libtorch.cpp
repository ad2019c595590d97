// Preloaded, it makes a libtorch of another version: what libtorch says of itself to C.
#include <cstdint>

extern "C" uint64_t aoti_torch_abi_version() { return uint64_t{0x020a000000000000}; }
