// A communicator of XLA: one device's place among a list of devices, and Tutti's communicator for it.
//
// Thread-safety: the functions from any thread; a Communicator as a tuttiComm_t.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "interop/jax/abi.h"
#include "interop/jax/caller.h"
#include "tutti/tutti.h"

namespace tutti::jax {

extern "C" {
// How the processes of a job find each other: the Python package (interop/python/tutti/jax) tells by JAX's own store.
// The functions may be called from any thread.
typedef struct {
  int process, processes;
  int init_timeout_ms;
  // Whether a device is this process's.
  int (*is_here)(std::int32_t device);
  // Gives all ranks of `devices` the same id. `number`: of the MPI_Init since which they meet. Not 0: they cannot meet, for
  // the reason in `why`.
  int (*meet)(int number, const std::int32_t* devices, int count, int rank, char id[TUTTI_UNIQUE_ID_BYTES], char* why,
              std::size_t why_bytes);
} tuttiJaxMeeting_t;
// The struct is copied.
void tuttiJaxMeetBy(const tuttiJaxMeeting_t* meeting);
}

class Communicator {
 public:
  // Meets the others. Does not throw: without success() all calls fail with failure().
  Communicator(Devices devices, int rank);
  // `why`: it could not be made.
  explicit Communicator(std::string why) : failure_(std::move(why)) {}
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const Devices& devices() const { return devices_; }
  tuttiComm_t tutti() const { return tutti_; }  // null: it could not be made
  const std::string& failure() const { return failure_; }

 private:
  Devices devices_;
  int rank_ = 0, size_ = 1;
  tuttiComm_t tutti_ = nullptr;
  std::string failure_;
};

// MPI_Init: communicators made from now on are new ones.
void BeginJob();
int WorldRank();
int WorldSize();

// The communicator whose first device is `color`, for the device at place `key` of it. `frame`, `caller`: of XLA's call.
Handle Split(int color, int key, const void* frame, const void* caller);
void Free(Handle communicator);
// REQUIRES: the handle is Split's, and not freed.
inline Communicator& At(Handle communicator) { return *reinterpret_cast<Communicator*>(communicator); }

}  // namespace tutti::jax
