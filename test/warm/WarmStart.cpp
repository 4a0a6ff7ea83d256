//===- WarmStart.cpp - A program that is loaded once and runs often -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What tests put before a program by LD_PRELOAD. Most of a small run of
// fsdp-run or fsdp-opt is LibTorch, which registers its operators while it is
// loaded. With this, the program stops at its main and forks for each call:
// main and all behind it run as in a process of its own, in a process of its
// own.
//
// FSDP_WARM_SOCKET: a descriptor of a listening SOCK_SEQPACKET socket. A call
// is a connection; its first message brings descriptors 0 to 2 and, each ended
// by NUL, the program, the folder, the number of arguments, these, and the
// environment. The answers are the process id and, once it has ended, the
// status of waitpid with the most KiB that were resident. Who hangs up kills
// the process. Where the id is 0 there is none, and the call is to be a process
// that is loaded by itself: it is of another program, or has other variables,
// of those that libraries read when they are loaded, than this process.
// FSDP_WARM_EARLY: how names of these begin, with colons between them.
// FSDP_WARM_PRELOAD: LD_PRELOAD of calls.
// FSDP_WARM_PROGRAM: the program.
// FSDP_WARM_LIBRARIES: libraries, with colons between them, that the program
// opens later.
//
// It ends, and its processes with it, when descriptor 0 is closed.
//===----------------------------------------------------------------------===//

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {
using Main = int (*)(int, char **, char **);
Main programMain;

/// A message of a few KiB: arguments and an environment.
constexpr size_t kMostBytes = 1 << 18;
constexpr size_t kStreams = 3;

[[noreturn]] void fail(const char *what) {
  std::fprintf(stderr, "warm start: %s: %s\n", what, std::strerror(errno));
  std::_Exit(125);
}

struct Call {
  int connection;
  int streams[kStreams];
  std::string text;
};

/// Without streams if the connection brought none.
bool receive(int listener, Call &call) {
  call.connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (call.connection < 0)
    return false;
  call.text.resize(kMostBytes);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(call.streams))];
  iovec data{call.text.data(), call.text.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t bytes = recvmsg(call.connection, &message, MSG_CMSG_CLOEXEC);
  cmsghdr *header = bytes > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (!header || header->cmsg_len != CMSG_LEN(sizeof(call.streams)) ||
      (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
    close(call.connection);
    return false;
  }
  std::memcpy(call.streams, CMSG_DATA(header), sizeof(call.streams));
  call.text.resize(bytes);
  return true;
}

/// What is between the ends of strings, or between colons.
std::vector<std::string> split(std::string_view text, char end) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    size_t length = std::min(text.find(end), text.size());
    parts.emplace_back(text.substr(0, length));
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return parts;
}

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// Those of the variables that libraries read when they are loaded.
std::set<std::string> early(const std::vector<std::string> &variables) {
  static const std::vector<std::string> beginnings =
      split(variable("FSDP_WARM_EARLY"), ':');
  std::set<std::string> found;
  for (const std::string &each : variables)
    for (const std::string &beginning : beginnings)
      if (each.starts_with(beginning))
        found.insert(each);
  return found;
}

/// What a call asks for.
struct Request {
  std::string program, folder;
  std::vector<std::string> arguments, environment;

  explicit Request(const std::string &text) {
    std::vector<std::string> parts = split(text, '\0');
    size_t count = parts.size() > 2 ? std::stoul(parts[2]) : 0;
    if (count == 0 || parts.size() < 3 + count)
      return;
    program = parts[0];
    folder = parts[1];
    auto end = parts.begin() + 3 + count;
    arguments.assign(parts.begin() + 3, end);
    environment.assign(end, parts.end());
  }
};

std::vector<char *> pointers(std::vector<std::string> &strings) {
  std::vector<char *> found;
  for (std::string &each : strings)
    found.push_back(each.data());
  found.push_back(nullptr);
  return found;
}

/// The process of a call, from here on what it would be had it been executed.
[[noreturn]] void become(const Call &call, Request &request,
                         const sigset_t &mask) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (size_t number = 0; number < kStreams; ++number)
    if (dup2(call.streams[number], static_cast<int>(number)) < 0)
      fail("a stream");
  close_range(kStreams, ~0U, 0);
  if (chdir(request.folder.c_str()) != 0)
    fail(request.folder.c_str());
  std::vector<char *> arguments = pointers(request.arguments);
  std::vector<char *> environment = pointers(request.environment);
  environ = environment.data();
  program_invocation_name = arguments.front();
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  std::exit(programMain(static_cast<int>(arguments.size()) - 1,
                        arguments.data(), environ));
}

void openLibraries() {
  for (const std::string &path : split(variable("FSDP_WARM_LIBRARIES"), ':'))
    if (!dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      std::fprintf(stderr, "warm start: %s\n", dlerror());
      std::_Exit(125);
    }
}

/// A fork has the one thread that forks: there must be no other.
void expectOneThread() {
  std::filesystem::directory_iterator threads("/proc/self/task");
  if (std::distance(begin(threads), end(threads)) == 1)
    return;
  std::fputs("warm start: the program has threads before its main\n", stderr);
  std::_Exit(125);
}

void reap(std::map<pid_t, int> &running) {
  int status;
  rusage used;
  while (pid_t pid = wait4(-1, &status, WNOHANG, &used)) {
    if (pid < 0)
      return;
    auto found = running.find(pid);
    int32_t end[] = {status, static_cast<int32_t>(used.ru_maxrss)};
    (void)send(found->second, end, sizeof(end), MSG_NOSIGNAL);
    close(found->second);
    running.erase(found);
  }
}

/// Those that the program itself was given, as calls have them.
std::set<std::string> ownVariables() {
  std::vector<std::string> own;
  for (char **each = environ; *each; ++each)
    if (std::strncmp(*each, "LD_PRELOAD=", 11) != 0)
      own.emplace_back(*each);
  if (std::string preload = variable("FSDP_WARM_PRELOAD"); !preload.empty())
    own.push_back("LD_PRELOAD=" + preload);
  return early(own);
}

int serve(int, char **, char **) {
  int listener = std::stoi(variable("FSDP_WARM_SOCKET"));
  const std::string program = variable("FSDP_WARM_PROGRAM");
  const std::set<std::string> variables = ownVariables();
  openLibraries();
  expectOneThread();
  sigset_t ends, mask;
  sigemptyset(&ends);
  sigaddset(&ends, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ends, &mask);
  int ended = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
  if (ended < 0)
    fail("signalfd");
  std::map<pid_t, int> running; // and their connections
  for (;;) {
    std::vector<pollfd> awaited{
        {listener, POLLIN, 0}, {ended, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    std::vector<pid_t> pids;
    for (auto [pid, connection] : running) {
      awaited.push_back({connection, POLLIN, 0});
      pids.push_back(pid);
    }
    if (poll(awaited.data(), awaited.size(), -1) < 0 && errno != EINTR)
      fail("poll");
    if (awaited[2].revents)
      std::_Exit(0);
    for (size_t number = 0; number < pids.size(); ++number)
      if (awaited[3 + number].revents)
        kill(pids[number], SIGKILL);
    signalfd_siginfo info;
    while (read(ended, &info, sizeof(info)) > 0)
      ;
    reap(running);
    Call call;
    if (!(awaited[0].revents & POLLIN) || !receive(listener, call))
      continue;
    Request request(call.text);
    bool isOurs =
        request.program == program && early(request.environment) == variables;
    pid_t pid = isOurs ? fork() : 0;
    if (pid < 0)
      fail("fork");
    if (isOurs && pid == 0)
      become(call, request, mask);
    for (int stream : call.streams)
      close(stream);
    (void)send(call.connection, &pid, sizeof(pid), MSG_NOSIGNAL);
    if (isOurs)
      running.emplace(pid, call.connection);
    else
      close(call.connection);
  }
}
} // namespace

extern "C" int __libc_start_main(Main main, int argc, char **argv,
                                 void (*init)(), void (*fini)(), void (*end)(),
                                 void *stack) {
  using Start =
      int (*)(Main, int, char **, void (*)(), void (*)(), void (*)(), void *);
  auto start = reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"));
  programMain = main;
  bool isAsked = std::getenv("FSDP_WARM_SOCKET");
  return start(isAsked ? serve : main, argc, argv, init, fini, end, stack);
}
