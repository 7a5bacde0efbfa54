/* Hooks for a library that offers another interface on top of Tutti, as libnccl.so.2 does: it gives settings that the
 * environment lacks, takes the log, hears of communicators and plans, and may choose among Tutti's plans. A flag of
 * tuttiCommShrink is for such a library, too.
 *
 * Programs do not need this header. Any hook may be NULL. A hook is called from whichever thread is inside Tutti, must
 * not throw, and must not call Tutti except where it says so. Texts are good during the call only, unless stated
 * otherwise.
 */
#ifndef TUTTI_EXTENSION_H_
#define TUTTI_EXTENSION_H_

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A communicator, as far as it is known. */
typedef struct {
  size_t size;        /* of this struct, as the library has it */
  tuttiComm_t comm;   /* may be used for tuttiGetLastError only */
  tuttiComm_t parent; /* NULL, or the one that it is split from, shrunk or grown */
  const char* name;   /* from its config, or "" */
  int rank, nranks;   /* -1 and 0: not known yet */
  int device;         /* CUDA device, or TUTTI_DEVICE_NONE */
  uint64_t busId;     /* of the device, as domain << 20 | bus << 12 | device << 4; 0: none, or not known */
  uint64_t id;        /* equal on all ranks; 0: not known yet */
  int hosts;          /* the rest is 0 until the communicator is made */
  int fewestRanksOfHost, mostRanksOfHost;
  int channels, messageChannels; /* the most for a collective, and for a message */
  tuttiTransport_t network;      /* between hosts; tuttiTransportSelf: there is one host */
} tuttiCommFacts_t;

/* A plan that could serve a call, or serves it. */
typedef struct {
  tuttiAlgorithm_t algorithm;
  const char* protocol; /* "line", "inline", "bulk" */
  int channels;         /* of the whole plan */
  double us;            /* predicted; 0: not priced */
} tuttiOffer_t;

/* A collective call. */
typedef struct {
  const char* collective; /* "all_reduce", "broadcast", ... */
  size_t bytes; /* of the buffer for all_reduce, broadcast and reduce; otherwise of the largest rank's block */
  int nranks;
} tuttiTunedCall_t;

/* A call as its user made it. */
typedef struct {
  const char* function; /* "all_reduce", "send", ...; lives as long as the process */
  const void* send;
  void* receive;
  size_t count; /* elements, as in the call; 0 for the v-forms */
  size_t bytes;
  tuttiDataType_t datatype;
  tuttiRedOp_t op; /* one that the user made appears as tuttiSum */
  int root;        /* or the peer */
  tuttiStream_t stream;
} tuttiCall_t;

typedef struct {
  size_t size; /* sizeof(tuttiExtension_t): the library reads no further than that */
  /* The text of the setting `name` ("TUTTI_ALGO"), used if the environment lacks it, or NULL. *source: the variable that
   * errors name. Both live as long as the process. Asked once for each setting, when they are read. */
  const char* (*setting)(const char* name, const char** source);
  /* Asked before a communicator or a unique id is made: anything but tuttiSuccess refuses it, with the text in `why`. */
  tuttiResult_t (*check)(char* why, size_t size);
  /* A line of the log (TUTTI_DEBUG). 0: it is to go to stderr. */
  int (*log)(const char* subject, const char* text);
  /* A communicator is about to be made; was made; is about to be freed. */
  void (*joining)(const tuttiCommFacts_t* facts);
  void (*joined)(const tuttiCommFacts_t* facts);
  void (*ending)(const tuttiCommFacts_t* facts);
  /* Whether communicators made from now on are to call `planned` at every collective. Their repeated short calls take
   * longer. */
  int (*wantsPlans)(void);
  void (*planned)(int rank, const tuttiTunedCall_t* call, const tuttiOffer_t* plan);
  /* An observer for a communicator that is being made, or NULL. The next six concern the calls on observed
   * communicators, whose repeated short calls take longer. All seven must be given, or none has an effect. */
  void* (*observe)(const tuttiCommFacts_t* facts);
  void (*unobserve)(void* observer); /* the communicator is freed; calls that were aborted on streams may go on */
  /* A call that has passed its checks: returns what the others get, or NULL if this call is not observed. */
  void* (*callBegins)(void* observer, const tuttiCall_t* call);
  void (*callReturns)(void* call); /* to its user */
  /* Its operation begins by this plan, and ends (on a GPU: was enqueued). A call that fails may lack both, or the end. */
  void (*operationBegins)(void* call, const tuttiOffer_t* plan);
  void (*operationEnds)(void* call);
  void (*callForgotten)(void* call); /* nothing follows */
  /* The calling thread opens a group; is about to close one; has closed it. */
  void (*groupStarts)(void);
  void (*groupEnds)(void);
  void (*groupEnded)(void);
  /* The name of the tuner that communicators use, or NULL. It must be the same on all ranks of a communicator, which
   * lives no longer than the text. */
  const char* (*tuner)(void); /* has no effect without the next three */
  /* Opens the tuner for one communicator. Anything but tuttiSuccess refuses the communicator, with the text in `why`. */
  tuttiResult_t (*openTuner)(const tuttiCommFacts_t* facts, void** tuner, char* why, size_t size);
  void (*closeTuner)(void* tuner);
  /* The index of the plan that this call and those like it shall have, or -1: that of the library's choice, which is
   * offers[usual] (in other chunks, perhaps), or is not among the offers if `usual` is -1. Every rank of the communicator
   * asks once for each plan that it makes, and must get the same answer. A rank that gets another one is reported, as is
   * one that makes another call. */
  int (*choose)(void* tuner, const tuttiTunedCall_t* call, const tuttiOffer_t* offers, int count, int usual);
} tuttiExtension_t;

/* A flag of tuttiCommShrink, beside its own: the call fails with tuttiRemoteError, on all ranks alike, unless all ranks
 * except excludeRanks take part. Every caller must give it, or none. */
#define TUTTI_SHRINK_EXACT 0x100

/* While a call on comm, made with a null stream, waits in its caller's thread, calls `waiting(context)` there: first
 * after some microseconds, then about every 20 us, and every ms once the thread sleeps. For a library whose own work goes
 * on only while a thread is inside it, as MPI's messages do. The function must not call Tutti. NULL: no longer. Holds from
 * the next call on comm; calls of a group with several communicators do not make it. */
TUTTI_API tuttiResult_t tuttiCommOnWait(tuttiComm_t comm, void (*waiting)(void* context), void* context);

/* Where a library on top was called, for messages. */
typedef struct {
  uint64_t key;     /* equal for equal texts, and below 2^63, such as a hash of the text. Without a text, the address to
                     * which the library's function returns: messages then name the line, or the function, there. */
  const char* text; /* "train.py:41 in step", or NULL; good until tuttiCallSiteEnd() */
} tuttiCallSite_t;

/* This thread's calls until tuttiCallSiteEnd() count as made there, and not where the library makes them. Returns 0, and
 * has no effect, if a library further out has named its own caller: that is nearer to the user. Otherwise 1. */
TUTTI_API int tuttiCallSiteBegin(const tuttiCallSite_t* site);
TUTTI_API void tuttiCallSiteEnd(void);
/* Ends the site, if there is one, for code of the user that the library calls back: that code's own calls have their own
 * sites. `ended` is for tuttiCallSiteBegin() after it. */
TUTTI_API void tuttiCallSiteSuspend(tuttiCallSite_t* ended);

/* Registers the hooks for the rest of the process; the struct is copied. `setting` has an effect only before the first
 * other call of the library. tuttiInvalidUsage: there are some already. */
TUTTI_API tuttiResult_t tuttiExtend(const tuttiExtension_t* extension);

#ifdef __cplusplus
}

namespace tutti {

/* tuttiCallSiteBegin and tuttiCallSiteEnd, as an object's life. */
class CallsFrom {
 public:
  /* NULL has no effect. */
  explicit CallsFrom(const tuttiCallSite_t* site) : begun_(tuttiCallSiteBegin(site) != 0) {}
  /* For an object in a function that programs call: the site is where they do. */
  [[gnu::always_inline]] CallsFrom() {
    const tuttiCallSite_t caller = {reinterpret_cast<uint64_t>(__builtin_return_address(0)), nullptr};
    begun_ = tuttiCallSiteBegin(&caller) != 0;
  }
  ~CallsFrom() {
    if (begun_) tuttiCallSiteEnd();
  }
  CallsFrom(const CallsFrom&) = delete;
  CallsFrom& operator=(const CallsFrom&) = delete;

 private:
  bool begun_;
};

/* tuttiCallSiteSuspend while code of the user runs, as an object's life. */
class SuspendedCallSite {
 public:
  SuspendedCallSite() { tuttiCallSiteSuspend(&suspended_); }
  ~SuspendedCallSite() { tuttiCallSiteBegin(&suspended_); }
  SuspendedCallSite(const SuspendedCallSite&) = delete;
  SuspendedCallSite& operator=(const SuspendedCallSite&) = delete;

 private:
  tuttiCallSite_t suspended_;
};

} /* namespace tutti */
#endif
#endif /* TUTTI_EXTENSION_H_ */
