// What the environment says about the machine that the stand-in stands in for. Read once.
#pragma once

namespace tutti::standin {

struct Environment {
  int devices;          // TUTTI_STANDIN_DEVICES, 1
  int multiprocessors;  // TUTTI_STANDIN_SMS, 64: of each device
  bool peers;           // TUTTI_STANDIN_PEERS, 1: devices reach each other's memory
  int driver_version;   // TUTTI_STANDIN_DRIVER, 13000
  int block_threads;    // TUTTI_STANDIN_THREADS, 1: a block of more CUDA threads is run by so many
  // TUTTI_STANDIN_SYNC, 0: whatever is enqueued is done when the call returns. For programs that use a library which
  // knows nothing of the driver: its work, done in the caller, is then in order with the streams'; and memory that it
  // gave out may be filled as if it were a device's.
  bool synchronous;
};

const Environment& TheEnvironment();

}  // namespace tutti::standin
