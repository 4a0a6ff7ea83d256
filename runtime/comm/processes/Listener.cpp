//===- Listener.cpp - Where the ranks' store listens ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/processes/Listener.h"

#include <algorithm>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include <cerrno>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace fsdp;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// An address that does not answer is left for the next one.
static constexpr milliseconds kLongestAttempt(3000);
static constexpr milliseconds kLongestPause(200);

namespace {
/// What a name means, as getaddrinfo says.
class Addresses {
public:
  Addresses(const std::string &host, int port, int flags = 0)
      : list(nullptr, freeaddrinfo) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV | flags;
    if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints,
                    &found) == 0)
      list.reset(found);
    for (const addrinfo *each = list.get(); each; each = each->ai_next)
      all.push_back(each);
  }

private:
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list;

public:
  std::vector<const addrinfo *> all;
};
} // namespace

/// Of the other end, or of the own one; 0 if it is no connected socket.
static int portOf(int handle, bool peer) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  auto *generic = reinterpret_cast<sockaddr *>(&address);
  if (peer ? getpeername(handle, generic, &length)
           : getsockname(handle, generic, &length))
    return 0;
  // Where a port is, IPv4 and IPv6 agree.
  return ntohs(reinterpret_cast<const sockaddr_in &>(address).sin_port);
}

static milliseconds timeTo(Clock::time_point end) {
  return std::chrono::ceil<milliseconds>(end - Clock::now());
}

static bool isConnected(int handle, milliseconds time) {
  pollfd ready{handle, POLLOUT, 0};
  if (poll(&ready, 1,
           static_cast<int>(std::max(time, milliseconds(1)).count())) <= 0)
    return false;
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(handle, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error)
    return false;
  // Where nobody listens at a port of this machine, a socket may be given just
  // this port, and meets itself.
  return portOf(handle, /*peer=*/true) != portOf(handle, /*peer=*/false);
}

static bool isListening(const addrinfo &address, Clock::time_point end) {
  int handle = socket(address.ai_family,
                      address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                      address.ai_protocol);
  if (handle < 0)
    return false;
  bool found = (connect(handle, address.ai_addr, address.ai_addrlen) == 0 ||
                errno == EINPROGRESS) &&
               isConnected(handle, std::min(timeTo(end), kLongestAttempt));
  close(handle);
  return found;
}

bool fsdp::waitForListener(const std::string &host, int port,
                           Clock::time_point end) {
  for (milliseconds pause(10);; pause = std::min(2 * pause, kLongestPause)) {
    // A name may be known only later, too.
    Addresses addresses(host, port);
    for (const addrinfo *each : addresses.all)
      if (isListening(*each, end))
        return true;
    if (Clock::now() >= end)
      return false;
    std::this_thread::sleep_for(
        std::clamp(timeTo(end), milliseconds(0), pause));
  }
}

static bool isLoopback(const sockaddr &address) {
  if (address.sa_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in &>(address)
                      .sin_addr.s_addr) >>
            IN_CLASSA_NSHIFT) == IN_LOOPBACKNET;
  if (address.sa_family != AF_INET6)
    return false;
  const auto &own = reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&own) ||
         (IN6_IS_ADDR_V4MAPPED(&own) && own.s6_addr[12] == IN_LOOPBACKNET);
}

std::optional<int> fsdp::listenAt(const std::string &host, int port) {
  bool isName = Addresses(host, port, AI_NUMERICHOST).all.empty();
  Addresses addresses(host, port);
  // c10d's clients, and ours, try all addresses; IPv4 needs no name server.
  std::ranges::stable_sort(addresses.all, {}, [](const addrinfo *each) {
    return each->ai_family != AF_INET;
  });
  for (const addrinfo *each : addresses.all) {
    if (isName && host != "localhost" && isLoopback(*each->ai_addr))
      continue;
    int handle = socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (handle < 0)
      continue;
    int yes = 1;
    setsockopt(handle, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(handle, each->ai_addr, each->ai_addrlen) == 0 &&
        listen(handle, SOMAXCONN) == 0)
      return handle;
    int reason = errno;
    close(handle);
    if (reason == EADDRINUSE || reason == EACCES)
      throw std::system_error(reason, std::generic_category(),
                              "port " + std::to_string(port) + " of '" + host +
                                  "' cannot be listened at");
  }
  return std::nullopt;
}
