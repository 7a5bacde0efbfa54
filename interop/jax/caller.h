// Which devices a communicator of XLA has.
//
// MPI_Comm_split is told only the communicator's first device (as the colour) and the caller's place in it (as the key):
// enough for an MPI whose every process has one device and takes part in every split. Programs with several devices in a
// process, or whose meshes have part of the devices, need the list. XLA's function that asks for the communicator has it in a
// CpuCliqueKey on its stack, which C++'s run-time type information identifies.
//
// Thread-safety: looks at the calling thread's stack only.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

namespace tutti::jax {

// XLA's GlobalDeviceId.
using Device = std::int32_t;
// By rank.
using Devices = std::vector<Device>;

// All lists of devices on this thread's stack, above `frame`, that `plausible` accepts; it gets no empty ones. A list may be left over from a
// call that has returned. `caller`: an address in XLA's code.
std::set<Devices> DevicesOnStack(const void* frame, const void* caller,
                                 const std::function<bool(const Devices&)>& plausible);

}  // namespace tutti::jax
