// The machine that the stand-in imitates, as environment variables describe it. Read once.
#pragma once

namespace tutti::standin {

struct Environment {
  int devices;          // TUTTI_STANDIN_DEVICES, 1
  int multiprocessors;  // TUTTI_STANDIN_SMS, 64: of each device
  bool peers;           // TUTTI_STANDIN_PEERS, 1: devices reach each other's memory
  int driver_version;   // TUTTI_STANDIN_DRIVER, 13000
  int block_threads;    // TUTTI_STANDIN_THREADS, 1: at most this many threads run a block
  // TUTTI_STANDIN_SYNC, 0: enqueued work is done when the call returns. For programs that use a library unaware of the
  // driver: that library's work, done in the caller, is then in order with the streams', and the memory that it hands
  // out may be filled as if it were a device's.
  bool synchronous;
};

const Environment& TheEnvironment();

}  // namespace tutti::standin
