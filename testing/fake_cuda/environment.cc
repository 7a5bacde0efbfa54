#include "testing/fake_cuda/environment.h"

#include <cstdlib>

namespace tutti::standin {
namespace {

int Number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : std::atoi(text);
}

}  // namespace

const Environment& TheEnvironment() {
  static const Environment environment{
      .devices = Number("TUTTI_STANDIN_DEVICES", 1),
      .multiprocessors = Number("TUTTI_STANDIN_SMS", 64),
      .peers = Number("TUTTI_STANDIN_PEERS", 1) != 0,
      .driver_version = Number("TUTTI_STANDIN_DRIVER", 13000),
      .block_threads = Number("TUTTI_STANDIN_THREADS", 1),
      .synchronous = Number("TUTTI_STANDIN_SYNC", 0) != 0,
  };
  return environment;
}

}  // namespace tutti::standin
