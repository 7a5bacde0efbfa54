#include "net/auth/dial.h"

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/error.h"
#include "net/auth/client_handshake.h"
#include "net/auth/handshake_pool.h"

namespace tutti::auth {
namespace {

// An address that has not answered by then gets company (RFC 8305 recommends 250 ms for the internet; ranks are near).
constexpr Deadline::Milliseconds kNextAddressAfter{50};
constexpr Deadline::Milliseconds kFirstPause{1};
constexpr Deadline::Milliseconds kLongestPause{50};
// Where a job follows another on a fixed port, the earlier one's rendezvous may answer for a moment.
constexpr Deadline::Milliseconds kWrongKeyPatience{5'000};

enum class Failure { nobody, other_user, stranger, dropped, silent, unreachable };
struct Attempt {
  std::optional<SecureChannel> channel;
  Failure failure = Failure::unreachable;
  std::string reason;
};

class Dialler {
 public:
  Dialler(const Call& call, const SecretKey& key, Deadline deadline, Cancellation cancel)
      : call_(call), key_(key), deadline_(deadline), cancel_(cancel) {}

  SecureChannel Run() {
    const auto wrong_key_until = std::min(deadline_, Deadline::After(kWrongKeyPatience));
    for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      auto attempt = Round();
      if (attempt.channel) return std::move(*attempt.channel);
      if (attempt.failure == Failure::stranger && (!call_.may_be_early || wrong_key_until.Passed())) {
        Throw(tuttiInvalidUsage,
              "rank {}: {} does not hold this job's secret: {}. Another job may be using this address, or the ranks' "
              "secrets differ (TUTTI_SECRET, unique id)",
              call_.rank, call_.whom, attempt.reason);
      }
      if (attempt.failure == Failure::other_user && (!call_.may_be_early || wrong_key_until.Passed())) {
        Throw(tuttiInvalidUsage, "rank {}: {} at {}", call_.rank, call_.whom, attempt.reason);
      }
      if (attempt.failure == Failure::nobody && !call_.may_be_early) {
        Throw(tuttiRemoteError,
              "rank {}: {} is gone: {}. Its process has ended, or joining has already failed or timed out", call_.rank,
              call_.whom, attempt.reason);
      }
      if (net::Wait({}, std::min(deadline_, Deadline::After(pause)), cancel_) == net::Wake::cancelled) ThrowCancelled();
      if (deadline_.Passed()) {
        Throw(tuttiTimeoutError, "rank {} could not reach {} at {} in the time allowed: {}", call_.rank, call_.whom,
              net::TextOf(call_.addresses), attempt.reason);
      }
    }
  }

 private:
  // Tries every address once. On failure returns the most telling reason: a wrong answer outweighs no answer.
  Attempt Round() {
    Attempt worst{std::nullopt, Failure::nobody, "no address"};
    bool first = true;
    const auto note = [&](Attempt attempt) {
      const auto weight = [](Failure failure) {
        const bool wrong = failure == Failure::stranger || failure == Failure::other_user;
        return wrong ? 2 : failure == Failure::nobody ? 0 : 1;
      };
      if (first || weight(attempt.failure) > weight(worst.failure)) worst = std::move(attempt);
      first = false;
    };
    struct Pending {
      net::Socket socket;
      net::SocketAddress address;
    };
    std::vector<Pending> pending;
    std::size_t next = 0;
    // A connection that is not even refused within this time counts as unreachable for this round.
    const auto round_ends = std::min(deadline_, Deadline::After(kHandshakeTime));
    while (next < call_.addresses.size() || !pending.empty()) {
      if (next < call_.addresses.size()) {
        const auto& address = call_.addresses[next++];
        auto result = net::StartConnect(address);
        if (!result.socket) {
          // Not a matter of the other side: trying again until the deadline would keep the other ranks waiting.
          if (result.error == EMFILE || result.error == ENFILE || result.error == ENOMEM) {
            ThrowSystem(fmt::format("rank {} cannot open a socket to {}", call_.rank, call_.whom), result.error);
          }
          note(Refused(address, result.error));
          continue;
        }
        pending.push_back({std::move(result.socket), address});
      }
      const bool more = next < call_.addresses.size();
      const auto patience = more ? std::min(round_ends, Deadline::After(kNextAddressAfter)) : round_ends;
      std::vector<pollfd> fds;
      for (const auto& one : pending) fds.push_back({one.socket.fd(), POLLOUT, 0});
      const auto wake = net::Wait(fds, patience, cancel_);
      if (wake == net::Wake::cancelled) ThrowCancelled();
      if (wake == net::Wake::deadline && round_ends.Passed()) {
        for (const auto& one : pending) {
          note({std::nullopt, Failure::unreachable, fmt::format("{} does not answer", one.address.Text())});
        }
        break;
      }
      for (std::size_t i = fds.size(); i-- > 0;) {
        if (fds[i].revents == 0) continue;
        auto one = std::move(pending[i]);
        pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(i));
        const int error = net::ConnectError(one.socket);
        auto attempt = error == 0 ? Prove(std::move(one.socket), one.address) : Refused(one.address, error);
        if (attempt.channel) return attempt;
        note(std::move(attempt));
      }
    }
    return worst;
  }

  static Attempt Refused(const net::SocketAddress& address, int error) {
    return {std::nullopt, error == ECONNREFUSED ? Failure::nobody : Failure::unreachable,
            fmt::format("{}: {}", address.Text(), ErrnoText(error))};
  }

  Attempt Prove(net::Socket socket, const net::SocketAddress& address) {
    const auto fail = [&](Failure failure, std::string_view what) {
      return Attempt{std::nullopt, failure, fmt::format("{} {}", address.Text(), what)};
    };
    ClientHandshake handshake(std::move(socket), {call_.purpose, call_.rank, kCentre, call_.nranks});
    const auto answer_by = std::min(deadline_, Deadline::After(kHandshakeTime));
    auto state = handshake.Advance(key_);
    while (state == ClientHandshake::State::waiting) {
      // Once the server has looked at this call it decides, however busy; a second call could only confuse it.
      if (!AwaitInput(handshake.socket(), handshake.answered() ? deadline_ : answer_by)) {
        return fail(Failure::silent, "accepts connections but does not answer");
      }
      state = handshake.Advance(key_);
    }
    switch (state) {
      case ClientHandshake::State::dropped:
        return fail(Failure::dropped, "closed the connection before it was authenticated");
      case ClientHandshake::State::foreign: return fail(Failure::stranger, "is not a Tutti rendezvous");
      case ClientHandshake::State::stranger: return fail(Failure::stranger, "answers with another secret");
      case ClientHandshake::State::misled:
        return fail(Failure::stranger, fmt::format("answers for rank {}", handshake.answers_for()));
      case ClientHandshake::State::unjudged:
      case ClientHandshake::State::refused: return fail(Failure::other_user, "is refused: " + handshake.refusal());
      default: break;
    }

    // The server has proven itself, so it is trusted to answer when it can. Its first, empty frame confirms admission.
    const auto keys = handshake.keys();
    SecureChannel channel(handshake.TakeSocket(), keys.client_to_server, keys.server_to_client);
    while (!channel.Receive()) {
      if (channel.closed()) return fail(Failure::dropped, "closed the connection during the handshake");
      if (!AwaitInput(channel.socket(), deadline_)) return fail(Failure::silent, "does not finish the handshake");
    }
    return {std::move(channel), {}, {}};
  }

  bool AwaitInput(const net::Socket& socket, Deadline until) {
    pollfd fd{socket.fd(), POLLIN, 0};
    const auto wake = net::Wait({&fd, 1}, until, cancel_);
    if (wake == net::Wake::cancelled) ThrowCancelled();
    return wake == net::Wake::event;
  }

  const Call& call_;
  const SecretKey& key_;
  Deadline deadline_;
  Cancellation cancel_;
};

}  // namespace

SecureChannel Dial(const Call& call, const SecretKey& key, Deadline deadline, Cancellation cancel) {
  return Dialler(call, key, deadline, cancel).Run();
}

void ThrowCancelled() {
  Throw(tuttiInvalidUsage, "the communicator was aborted in this process while it waited for other ranks");
}

}  // namespace tutti::auth
