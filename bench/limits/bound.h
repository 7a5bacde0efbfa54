// The model of the bound: no implementation of a collective can be faster on a machine with the given Limits.
//
//     bound = latency + max(crossing, streaming)
//
// latency    Ranks <= cores: one cache line's round trip. A rank's result depends on every other rank's input, so a
//            line must cross; and before the buffers are reused, the reader's acknowledgement must return. Ranks >
//            cores: in addition every rank of a core must run once: (ranks / cores) switches, each half a sched_yield
//            round trip.
// crossing   Data that the busiest core must take from the other cores, at the bandwidth of copying lines that another
//            core has just written, both ways at once. Ranks are on core (rank mod cores), and the model assumes that a
//            core combines its own ranks' data before passing them on:
//              all-reduce      2 (C - 1) / C x bytes: its share of every other core's partial result, then their shares
//              reduce-scatter  (C - 1) partial results of the blocks of its own ranks
//              all-gather      the blocks of all other cores' ranks, once
//              all-to-all      for each of its ranks, the blocks of all other cores' ranks
//              broadcast       the message once, unless it has the root
//              reduce          (C - 1) / C x bytes at every core, then the root's core gathers as much
//              gather, scatter the blocks that must reach the root's core, or leave it
//              send/recv       one message for each of its ranks
// streaming  Bytes that all cores together must read and write, over the bandwidth measured for the working set per
//            core - temporal or non-temporal, whichever is better. Reductions read each input once and write each
//            output once, at the bandwidth of d = a + b; movers copy (read and write) each byte of output, at the
//            bandwidth of d = a. In place the traffic is the same, the working set smaller. A broadcast leaves the
//            root's buffer alone: ranks - 1 copies, each made by one core.
//
// The model deliberately omits copies through intermediate buffers (a design choice), first touch of pages, and caches
// that keep an input from one call to the next (the limits are also measured warm).
//
// Pure functions; thread-safe.
#pragma once

#include "bench/limits/limits.h"
#include "bench/worker/collective.h"

namespace tutti::bench {

// Bytes that the model counts; explains a bound, and for tests.
struct Traffic {
  double crossing = 0;     // into the busiest core from others
  double streamed = 0;     // read and written by all cores together
  double working_set = 0;  // per core
  int busy_cores = 1;      // that can stream at the same time
  bool reduces = false;
};
// REQUIRES: ranks >= 1, cores >= 1.
Traffic TrafficOf(const Operation& operation, int ranks, int cores);

double BoundUs(const Operation& operation, int ranks, const Limits& limits);

}  // namespace tutti::bench
