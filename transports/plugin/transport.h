// The transport over a network plug-in of NCCL. A plug-in proves nothing about who is at the other end, so where ranks
// listen travels only over the side channel, which has proven the job's secret, together with a random token for each
// direction of each pair of ranks: connections that do not begin with it are not used.
//
// A plug-in offers nothing to wait for, so a thread that sleeps wakes up now and then to ask: soon at first, then each
// millisecond.
//
// Thread-safety: one thread at a time.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "base/all_gather.h"
#include "base/file_descriptor.h"
#include "base/settings/settings.h"
#include "net/auth/secret_key.h"
#include "transports/plugin/peer.h"
#include "transports/side/transport.h"

namespace tutti::plugin {

// A communicator's context in the plug-in.
class Context {
 public:
  // Throws tuttiSystemError.
  Context(std::shared_ptr<const Library> library, std::uint64_t communicator);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  const Library& library() const { return *library_; }
  void* get() const { return context_; }

 private:
  std::shared_ptr<const Library> library_;
  void* context_ = nullptr;
};

class PluginTransport final : public side::Transport {
 public:
  // Collective over all ranks. `nics`: see progress::NetworkKind. Throws what LoadPlugin and side::Transport throw, and
  // tuttiInvalidUsage if ranks have different plug-ins.
  PluginTransport(int rank, const std::vector<int>& peers, const auth::SecretKey& key, const Settings& settings,
                  const std::vector<std::string>& nics, const AllGather& all_gather,
                  progress::NetworkTransportEvents& events);
  // After Close(), waits a little until the peers confirm what was sent.
  ~PluginTransport() override;

  double bandwidth() const override;
  void Register(const std::byte* begin, std::size_t bytes) override;
  void Deregister(const std::byte* begin, std::size_t bytes) override;

 private:
  PluginTransport(std::shared_ptr<const Context> context, int rank, const std::vector<int>& peers,
                  const auth::SecretKey& key, const Settings& settings, const std::vector<std::string>& nics,
                  const AllGather& all_gather, progress::NetworkTransportEvents& events);

  bool Move() override;
  bool Arm() override;

  std::shared_ptr<const Context> context_;
  const Device& device_;
  UserRanges user_ranges_;
  FileDescriptor alarm_;
  std::chrono::microseconds nap_;
};

}  // namespace tutti::plugin
