//===- WarmCall.cpp - A call of a program that is loaded already ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// fsdp-warm-call @FILE PROGRAM [ARGUMENT]...: runs the program in a fork of the
// one that listens at the address in the file (WarmStart.cpp, warm_python.py),
// and ends as it does. By another name, what the variable FSDP_WARM_NAME says,
// with _ for -, is run, ADDRESS:PROGRAM. If nobody listens, or declines, it
// executes the program.
//===----------------------------------------------------------------------===//

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {
/// A connection to an abstract address, or -1.
int reach(const std::string &name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof(address.sun_path))
    return -1;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  socklen_t length = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (connect(connection, reinterpret_cast<sockaddr *>(&address), length) ==
          0 &&
      getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
      peer.uid == geteuid())
    return connection;
  close(connection);
  return -1;
}

bool ask(int connection, const std::string &text) {
  int streams[] = {0, 1, 2};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(streams))] = {};
  iovec data{const_cast<char *>(text.data()), text.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(streams));
  std::memcpy(CMSG_DATA(header), streams, sizeof(streams));
  return sendmsg(connection, &message, MSG_NOSIGNAL) == ssize_t(text.size());
}

bool receive(int connection, int32_t &number) {
  return recv(connection, &number, sizeof(number), 0) == sizeof(number);
}

/// What this process is told, the other one is. Its status, if it ended by
/// itself.
std::optional<int> await(int connection, pid_t pid, int told) {
  for (;;) {
    pollfd awaited[] = {{connection, POLLIN, 0}, {told, POLLIN, 0}};
    if (poll(awaited, 2, -1) < 0)
      continue;
    signalfd_siginfo info;
    if (read(told, &info, sizeof(info)) == sizeof(info))
      kill(pid, static_cast<int>(info.ssi_signo));
    int32_t status = 0;
    if (awaited[0].revents && !receive(connection, status))
      return std::nullopt;
    if (awaited[0].revents)
      return status;
  }
}

[[noreturn]] void endAs(int status) {
  if (WIFSIGNALED(status)) {
    rlimit none{};
    setrlimit(RLIMIT_CORE, &none);
    signal(WTERMSIG(status), SIG_DFL);
    sigset_t none_blocked;
    sigemptyset(&none_blocked);
    sigprocmask(SIG_SETMASK, &none_blocked, nullptr);
    raise(WTERMSIG(status));
  }
  std::_Exit(WEXITSTATUS(status));
}
} // namespace

int main(int argc, char **argv) {
  std::string own = std::filesystem::path(argv[0]).filename();
  std::string address, program;
  if (own != "fsdp-warm-call") {
    std::replace(own.begin(), own.end(), '-', '_'); // or shells drop it
    const char *value = std::getenv(("FSDP_WARM_" + own).c_str());
    std::string said = value ? value : "";
    size_t colon = std::min(said.find(':'), said.size());
    address = said.substr(0, colon);
    program = said.substr(std::min(colon + 1, said.size()));
  } else if (argc > 2 && argv[1][0] == '@') {
    std::getline(std::ifstream(argv[1] + 1), address);
    argv += 2;
    argc -= 2;
    program = argv[0];
  }
  if (program.empty()) {
    std::fputs("usage: fsdp-warm-call @FILE PROGRAM [ARGUMENT]...\n", stderr);
    return 2;
  }
  std::string text;
  auto add = [&](const std::string &part) { text += part + '\0'; };
  add(program);
  add(std::filesystem::current_path());
  add(std::to_string(argc));
  for (int number = 0; number < argc; ++number)
    add(argv[number]);
  for (char **each = environ; *each; ++each)
    add(*each);
  int connection = reach(address);
  sigset_t told, before;
  sigemptyset(&told);
  for (int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2})
    sigaddset(&told, number);
  sigprocmask(SIG_BLOCK, &told, &before);
  int32_t pid = 0;
  if (connection >= 0 && ask(connection, text) && receive(connection, pid) &&
      pid > 0) {
    if (auto status = await(connection, pid,
                            signalfd(-1, &told, SFD_CLOEXEC | SFD_NONBLOCK)))
      endAs(*status);
    std::fprintf(stderr, "warm call: what listened at %s has ended\n",
                 address.c_str());
    return 125;
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  // By its own name: Python finds its folders by it.
  argv[0] = program.data();
  execv(program.c_str(), argv);
  std::perror(program.c_str());
  return 126;
}
