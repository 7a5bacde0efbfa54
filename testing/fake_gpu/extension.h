// Functions that the fake GPU's driver offers besides the driver's interface.
#pragma once

#include <cuda.h>

#include <functional>

// Does host work in stream order. Unlike a host function, it may be captured, with everything it holds.
extern "C" CUresult fakeGpuEnqueue(CUstream stream, const std::function<void()>& work);

// How many calls have waited for a stream's work, whether or not it was done already.
extern "C" unsigned long long fakeGpuWaits();

// The whole life of a processor (processor/processor.h), which serves the process at the other end of this socket.
extern "C" [[noreturn]] void fakeGpuServe(int control);
