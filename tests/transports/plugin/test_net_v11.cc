#include "tests/transports/plugin/test_net.h"

extern "C" __attribute__((visibility("default"))) tutti::plugin::abi::Table<tutti::plugin::abi::V11> ncclNetPlugin_v11;
tutti::plugin::abi::Table<tutti::plugin::abi::V11> ncclNetPlugin_v11 =
    tutti::testing::net::TableOf<tutti::plugin::abi::V11>();
