// What the stand-in's driver offers beside the driver's interface.
#pragma once

#include <cuda.h>

#include <functional>

// Does host work in the stream's turn. Unlike a host function's, it may be captured with all that it holds.
extern "C" CUresult standinEnqueue(CUstream stream, const std::function<void()>& work);
