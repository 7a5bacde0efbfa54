// The contents of a tuttiUniqueId: where the ranks of one job meet, and the secret by which they recognise each other.
//
//     bytes 0..7     magic and version
//           8..9     flags, number of addresses
//          10..25    job: distinguishes jobs
//          26..57    secret
//          58..119   addresses: family (4 or 6), IP, for IPv6 its scope, port
//         120..127   checksum, which distinguishes an id damaged on its way from a stranger's
//
// Thread-safety: value types and pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "net/auth/secret_key.h"
#include "net/socket.h"
#include "net/wire.h"
#include "tutti/tutti.h"

namespace tutti::bootstrap {

struct JoinTicket {
  std::array<std::byte, 16> job{};
  auth::SecretKey secret;
  // Rank 0's process opens the rendezvous when it joins, so others may come too early (TUTTI_COMM_ID, MASTER_ADDR).
  // Otherwise the rendezvous was open before the ticket existed.
  bool served_by_rank0 = false;
  // Only with served_by_rank0: the address is a name, which may mean something else on rank 0's own machine, so rank 0
  // listens on all its addresses.
  bool listen_everywhere = false;
  // The secret is half of the key, and TUTTI_SECRET the other (WithJobSecret): who reads the id where it is passed on lacks one.
  bool needs_job_secret = false;
  std::vector<net::SocketAddress> addresses;  // never empty, best first

  // Whether all ranks are on this machine. No port of such a job may be open to other machines: it may lack a secret.
  bool StaysOnLoopback() const {
    return !listen_everywhere && std::ranges::all_of(addresses, &net::SocketAddress::IsLoopback);
  }

  friend bool operator==(const JoinTicket&, const JoinTicket&) = default;
};

// Throws tuttiInvalidArgument: an id that tuttiGetUniqueId did not make, or of another version, or damaged.
JoinTicket DecodeUniqueId(const tuttiUniqueId& id);
// REQUIRES: at least one address. Addresses that do not fit (two of each family always fit) are left out.
tuttiUniqueId EncodeUniqueId(const JoinTicket& ticket);

// Makes the checksum match the rest: the last step of encoding.
void SetChecksum(tuttiUniqueId& id);

// The keys of the rendezvous' handshake, and of the hub's, which differs for every rendezvous (`session`).
auth::SecretKey RendezvousKey(const JoinTicket& ticket);
auth::SecretKey HubKey(const auth::SecretKey& rendezvous_key, const std::array<std::byte, 16>& session);

// Addresses as bytes, also used in the rendezvous' messages. ReadAddress fails the reader if there is none.
void WriteAddress(net::ByteWriter& writer, const net::SocketAddress& address);
std::optional<net::SocketAddress> ReadAddress(net::ByteReader& reader);

}  // namespace tutti::bootstrap
