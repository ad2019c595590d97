#include "am/compat/host_profile.h"

#include <array>

namespace am::compat {

namespace {

constexpr std::string_view kHostName = "BEAKER_NODE_HOSTNAME";

constexpr std::array<ProfileVariable, 2> kJupiter = {{
    {"NCCL_IB_HCA", "^=mlx5_bond_0"},
    {"NCCL_SOCKET_IFNAME", "ib", /*several_nodes_only=*/true},
}};

constexpr std::array<ProfileVariable, 1> kPluto = {{
    {"NCCL_IB_HCA", "^=mlx5_1,mlx5_2"},
}};

// Google's A3+ machines, whose FastRak network needs more variables.
constexpr std::array<ProfileVariable, 25> kAugusta = {{
    {"NCCL_CROSS_NIC", "0"},
    {"NCCL_PROTO", "Simple,LL128"},
    {"NCCL_MIN_NCHANNELS", "4"},
    {"NCCL_P2P_NET_CHUNKSIZE", "524288"},
    {"NCCL_P2P_PCI_CHUNKSIZE", "524288"},
    {"NCCL_P2P_NVL_CHUNKSIZE", "1048576"},
    {"NCCL_NVLSTREE_MAX_CHUNKSIZE", "131072"},
    {"NCCL_BUFFSIZE", "8388608"},
    {"NCCL_NET_GDR_LEVEL", "PIX"},
    {"NCCL_FASTRAK_NUM_FLOWS", "2"},
    {"NCCL_FASTRAK_ENABLE_CONTROL_CHANNEL", "0"},
    {"NCCL_FASTRAK_ENABLE_HOTPATH_LOGGING", "0"},
    {"NCCL_FASTRAK_USE_SNAP", "1"},
    {"NCCL_FASTRAK_USE_LLCM", "1"},
    {"NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY", "/dev/aperture_devices"},
    {"NCCL_FASTRAK_PLUGIN_ACCEPT_TIMEOUT_MS", "{timeout_ms}"},
    {"NCCL_FASTRAK_CTRL_DEV", "enp0s12"},
    {"NCCL_FASTRAK_IFNAME", "enp6s0,enp7s0,enp13s0,enp14s0,enp134s0,enp135s0,enp141s0,enp142s0"},
    {"NCCL_SOCKET_IFNAME", "enp0s12"},
    {"NCCL_USE_SNAP", "1"},
    {"NCCL_TUNER_PLUGIN", "libnccl-tuner.so"},
    {"NCCL_TUNER_CONFIG_PATH", "/var/lib/tcpxo/lib64/a3plus_tuner_config.textproto"},
    {"NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE",
     "/var/lib/tcpxo/lib64/a3plus_guest_config.textproto"},
    {"NCCL_DEBUG_SUBSYS", "INIT,NET"},
    {"CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7"},
}};

constexpr std::array<HostProfile, 3> kProfiles = {{
    {"jupiter", kHostName, "jupiter", kJupiter},
    {"pluto", kHostName, "pluto", kPluto},
    {"augusta", kHostName, "augusta", kAugusta},
}};

}  // namespace

std::span<const HostProfile> host_profiles() { return kProfiles; }

const HostProfile* find_host_profile(const Variables& variables,
                                     std::span<const HostProfile> profiles) {
  for (const HostProfile& profile : profiles) {
    const auto host = variables.get(std::string(profile.variable));
    if (host && host->find(profile.contains) != std::string::npos) return &profile;
  }
  return nullptr;
}

std::vector<std::pair<std::string, std::string>> profile_variables(
    const HostProfile& profile, int64_t num_nodes, std::chrono::milliseconds timeout) {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const ProfileVariable& variable : profile.variables) {
    if (variable.several_nodes_only && num_nodes <= 1) continue;
    const bool is_timeout = variable.value == "{timeout_ms}";
    variables.emplace_back(
        variable.name, is_timeout ? std::to_string(timeout.count()) : std::string(variable.value));
  }
  return variables;
}

}  // namespace am::compat
