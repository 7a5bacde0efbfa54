// The model of the bound: no implementation of a collective can be faster on a machine with the given Limits.
//
//     bound = max(latency, crossing, streaming)
//
// Calls follow each other back to back, so one call's latency may pass while another's data stream; therefore the
// greatest, not the sum.
//
// latency    A rank whose result depends on every other rank's input cannot begin the next call before a line has come
//            from the others: half a cache line's round trip a call, because both directions are used at once. No rank
//            waits for the acknowledgement of a copy. With more ranks than cores, the ranks of a core must take turns: of
//            L ranks, L - 1 give the core up in each call (the last one finds what it awaits and goes on to the next
//            call), and a switch takes half a sched_yield round trip. Where data go one way only (broadcast, reduce,
//            gather, scatter), the senders run ahead, and there is no such wait.
// crossing   Data that the busiest core must take from the other cores, at the highest rate measured for copying lines
//            that another core has just written, both ways at once, in pieces of any length, since an algorithm may cut
//            its data; at twice that rate where data go one way. Ranks are on core (rank mod cores), and the model
//            assumes that a core combines its own ranks' data before passing them on:
//              all-reduce      2 (C - 1) / C x bytes: its share of every other core's partial result, then their shares
//              reduce-scatter  (C - 1) partial results of the blocks of its own ranks
//              all-gather      the blocks of all other cores' ranks, once
//              all-to-all      for each of its ranks, the blocks of all other cores' ranks
//              broadcast       the message once, unless it has the root
//              reduce          (C - 1) / C x bytes at every core, then the root's core gathers as much
//              gather, scatter the blocks that must reach the root's core, or leave it
//              send/recv       one message for each of its ranks
//            The bench does not change inputs between calls. So nothing must cross again where a core's own cache holds
//            what its ranks touch and what they take from others, unless results overwrite what others need.
// streaming  Each input is read once and each output written once, at the bandwidth measured for the working set per
//            core: temporal or non-temporal, whichever is better, of d = a + b for reductions and of d = a for movers.
//            And a mover's core loads and stores each byte of output, though the input may then come from a cache: at the
//            highest bandwidth of any working set. In place the traffic is the same, the working set smaller. All
//            cores take part: a broadcast's root brings the data into a cache for the others.
//
// Between hosts whose links are limited, the link is a bound, too: bytes that must cross into a host, counted as for a core.
//
// The model deliberately omits copies through intermediate buffers (a design choice) and first touch of pages. The
// limits are measured warm, so streaming knows the caches that keep an input from one call to the next.
//
// Pure functions; thread-safe.
#pragma once

#include "bench/limits/limits.h"
#include "bench/worker/collective.h"

namespace tutti::bench {

// Bytes that the model counts; explains a bound, and for tests.
struct Traffic {
  double crossing = 0;     // into the busiest core from others
  double streamed = 0;     // inputs and outputs of all ranks
  double handled = 0;      // loaded and stored by all cores together
  double working_set = 0;  // per core
  bool reduces = false;
};
// REQUIRES: ranks >= 1, cores >= 1.
Traffic TrafficOf(const Operation& operation, int ranks, int cores);

double BoundUs(const Operation& operation, int ranks, const Limits& limits);
// The time of what must cross between hosts that have equally many ranks. `link`: of a host, in GB/s each way.
double LinkBoundUs(const Operation& operation, int ranks, int hosts, double link);

}  // namespace tutti::bench
