// The library of a network plug-in: found by the name that the settings give, loaded, and asked for its devices.
//
// A process loads a plug-in once and never unloads it: plug-ins start threads. It is initialised at that time, for good.
//
// Thread-safety: immutable once loaded; LoadPlugin() may be called from any thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/settings/settings.h"
#include "base/shared_library.h"
#include "transports/plugin/control_thread.h"
#include "transports/plugin/net.h"

namespace tutti::plugin {

// Connections that a rank has taken of a device's supply, until it is done with them.
class Reserved {
 public:
  Reserved() = default;
  // Empty if there are not so many left.
  Reserved(const Device& device, int connections);
  Reserved(Reserved&& other) noexcept { *this = std::move(other); }
  Reserved& operator=(Reserved&& other) noexcept {
    std::swap(in_use_, other.in_use_);
    std::swap(connections_, other.connections_);
    return *this;
  }
  ~Reserved();

  explicit operator bool() const { return in_use_ != nullptr; }

 private:
  std::shared_ptr<std::atomic<int>> in_use_;
  int connections_ = 0;
};

// Connections that are to be closed, with the memory of their requests.
class Unfinished {
 public:
  virtual ~Unfinished() = default;
  // No request is left. Asks the plug-in.
  virtual bool Finished() = 0;
};

class Library {
 public:
  // Loads and initialises it. Throws tuttiInvalidUsage, as LoadPlugin. REQUIRES: once in a process for each file.
  explicit Library(const std::string& file);
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library();

  const Net& net() const { return *net_; }
  // Makes all calls of `listen` and `connect`.
  ControlThread& control() const { return *control_; }
  const std::string& file() const { return file_; }
  // The devices that can carry host memory, the fastest first; at least one.
  const std::vector<Device>& devices() const { return devices_; }
  // Keeps connections until their requests are done, which may be never: some plug-ins lose other connections of the
  // process if one is closed before that (aws-ofi-nccl: all of the same endpoint).
  void Keep(std::unique_ptr<Unfinished> connections) const;
  // Closes those whose requests are done by now.
  void CloseFinished() const;
  // The plug-in, for a person: "net plug-in Socket (libnccl-net.so, v11)".
  std::string Name() const;
  // That one of its functions failed: "net plug-in ...: isend returned 2 (system error)". `function` has NCCL's name.
  std::string Failure(std::string_view function, Result result) const;

 private:
  // What `init` has made, until finalize().
  class OwnContext {
   public:
    OwnContext() = default;
    OwnContext(const OwnContext&) = delete;
    OwnContext& operator=(const OwnContext&) = delete;
    ~OwnContext() {
      if (net_ != nullptr) net_->Finalize(context_);
    }

    Result Init(const Net& net) {
      const auto result = net.Init(&context_, 0);
      if (result == Result::success) net_ = &net;
      return result;
    }

   private:
    const Net* net_ = nullptr;
    void* context_ = nullptr;
  };

  void Check(std::string_view function, Result result) const;

  std::string file_;
  SharedLibrary library_;
  std::unique_ptr<const Net> net_;
  std::unique_ptr<ControlThread> control_ = std::make_unique<ControlThread>();
  // Of no communicator: a plug-in of version 11 that has lost its last context could not be initialised again.
  OwnContext context_;
  std::vector<Device> devices_;
  struct Kept;
  std::unique_ptr<Kept> kept_;
};

// The files that a name in TUTTI_NET_PLUGIN may mean, in the order in which they are tried: NAME itself if it is a path
// or the name of a library; else libnccl-net-NAME.so. "": libnccl-net.so.
std::string FileOf(const std::string& name);

// The plug-in that the settings name. Throws tuttiInvalidUsage with the plug-in's name and what is wrong: there is no
// such file, it crashes when it is loaded, it lacks a table or a function, a function returns an error, it does not come
// to an end of its initialisation in time, or none of its devices can carry host memory. Throws tuttiSystemError if no
// thread can be started.
std::shared_ptr<const Library> LoadPlugin(const Settings& settings);

}  // namespace tutti::plugin
